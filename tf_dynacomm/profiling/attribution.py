"""Which layer an operation computes for, from the data flow of the traced step.

* Forward, an operation belongs to the highest layer whose parameters it needs.
* Backward, it belongs to the first layer, in the order L..1, whose gradient needs it: the
  backward pass of layer l + 1 that makes layer l's gradient possible is layer l's cost, since
  that gradient becomes ready only then.

Names play no part in it, so that every Keras version and custom loop is read alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph

FORWARD = "forward"
BACKWARD = "backward"


@dataclasses.dataclass(frozen=True)
class Part:
    """A place in the step: the phase (`FORWARD` or `BACKWARD`) and the layer, 1..L."""

    phase: str
    layer: int


def attribute(
    graph: step_graph.StepGraph,
    layers: Sequence[layers_lib.Layer],
    row_gradients: Mapping[str, int] | None = None,
) -> dict[str, Part]:
    """Finds the part of every operation that the worker computes.

    Args:
      graph: The step's graph.
      layers: Its layers.
      row_gradients: The tensors that change rows of embeddings, and the layers that they count for.

    Operations that need no parameter, such as those of the input pipeline, belong to no part: they
    need not wait for any pull. What leads to no gradient, as the norm of all gradients that is only
    reported, belongs to the backward pass if it needs something of it. Gradients may come through
    layers above all that the step trains, as in a GAN; the backward pass of those is then part of
    the highest trained layer's.
    """
    needs = _highest_needed(graph, layers)
    gradients = _gradients(layers) | (row_gradients or {})
    pushed = {step_graph.producer(tensor): layer for tensor, layer in gradients.items()}
    serves = _highest_served(graph, pushed)
    # The layers that gradients come through: what needs less than them comes before the loss.
    through = _highest_served(graph, {name: needs[name] for name in pushed})
    behind_loss = [n for n in serves if needs[n] >= through[n]]
    reported = _reported(graph, len(layers), gradients, needs)
    backward = _backward(behind_loss, reported, needs, serves)
    found: dict[str, Part] = {}
    for name, node in graph.nodes.items():
        if node.task == step_graph.WORKER and needs[name]:
            layer = serves[name] if name in backward else None
            if name not in serves:
                layer = _lowest_backward(found, map(step_graph.producer, node.inputs))
            found[name] = Part(BACKWARD, layer) if layer else Part(FORWARD, needs[name])
    return found


def _lowest_backward(found: Mapping[str, Part], names: Iterable[str]) -> int | None:
    """The lowest layer of nodes of the backward pass: the part of it that comes last."""
    parts = (found[name] for name in names if name in found)
    return min((part.layer for part in parts if part.phase == BACKWARD), default=None)


def _gradients(layers) -> dict[str, int]:
    """The layers' gradients, and the layers that these are of."""
    numbered = enumerate(layers, start=1)
    return {push.crossing.tensor: number for number, layer in numbered for push in layer.pushes}


def _backward(
    names: Sequence[str],
    reported: Collection[str] | None,
    needs: Mapping[str, int],
    serves: Mapping[str, int],
) -> set[str]:
    """The nodes of the backward pass among those of the last layer, the loss, and behind it.

    They are those that serve gradients alone. Where that tells nothing, they are all nodes from the
    first on, in the order of the program, that serves a lower layer than it needs.
    """
    if reported is not None:
        return {name for name in names if name not in reported}
    begun = (i for i, name in enumerate(names) if serves[name] < needs[name])
    return set(names[next(begun, len(names)) :])


def _reported(graph, num_layers: int, gradients, needs: Mapping[str, int]) -> set[str] | None:
    """The nodes that anything but gradients needs: results, metrics, statistics.

    `None` where they tell nothing of the loss: it is not among them, or the gradients are, too.
    """
    leaving = [c.tensor for c in graph.crossings if c.source.task == step_graph.WORKER]
    found = {step_graph.producer(t) for t in (*graph.results, *leaving) if t not in gradients}
    for node in reversed(graph.nodes.values()):
        if node.name in found:
            found.update(step_graph.producer(i) for i in node.inputs)
    observed = any(needs.get(name) == num_layers for name in found)
    return found if observed and found.isdisjoint(map(step_graph.producer, gradients)) else None


def _highest_needed(graph, layers) -> dict[str, int]:
    """For each node, the highest layer whose parameters it needs, pulled or read anew; else 0."""
    numbered = enumerate(layers, start=1)
    own = {pull.variable.arg: number for number, layer in numbered for pull in layer.pulls}
    needed: dict[str, int] = {}
    for node in graph.nodes.values():
        is_read = node.op == "ReadVariableOp"
        before = (needed.get(step_graph.producer(i), 0) for i in node.inputs)
        needed[node.name] = own.get(node.inputs[0], 0) if is_read else max(before, default=0)
    return needed


def _highest_served(graph, pushed: Mapping[str, int]) -> dict[str, int]:
    """For each worker's node, the highest number of those pushed nodes that need it, if any."""
    served: dict[str, int] = {}
    for node in reversed(graph.nodes.values()):
        if node.task == step_graph.WORKER:
            after = (served.get(r, 0) for r in graph.readers.get(node.name, ()))
            if highest := max([pushed.get(node.name, 0), *after]):
                served[node.name] = highest
    return dict(reversed(served.items()))
