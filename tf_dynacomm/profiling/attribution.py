"""Which layer an operation computes for, from the data flow of the traced step.

* Forward, an operation belongs to the highest layer whose parameters it needs.
* Backward, it belongs to the first layer, in the order L..1, whose gradient needs it: the
  backward pass of layer l + 1 that makes layer l's gradient possible is layer l's cost, since
  that gradient becomes ready only then.

Names play no part in it, so that every Keras version and custom loop is read alike.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph

FORWARD = "forward"
BACKWARD = "backward"


@dataclasses.dataclass(frozen=True)
class Part:
    """A place in the step: the phase (`FORWARD` or `BACKWARD`) and the layer, 1..L."""

    phase: str
    layer: int


def attribute(graph: step_graph.StepGraph, layers: Sequence[layers_lib.Layer]) -> dict[str, Part]:
    """Finds the part of every operation that the worker computes.

    Operations that need no parameter, such as those of the input pipeline, belong to no part: they
    need not wait for any pull.
    """
    needs = _highest_needed(graph, layers)
    serves = _highest_served(graph, layers)
    parts: dict[str, Part] = {}
    backward = False
    reported = _reported(graph, layers, needs)
    for node in graph.nodes.values():
        needed, served = needs[node.name], serves.get(node.name)
        if node.task != "worker" or not needed:
            continue
        if served is not None:
            backward = backward or served < needed or node.name not in reported
        in_backward = backward and served is not None
        parts[node.name] = Part(BACKWARD, served) if in_backward else Part(FORWARD, needed)
    return parts


def _reported(graph, layers, needs: dict[str, int]) -> set[str]:
    """The nodes that anything but gradients needs: results, metrics, statistics.

    In the order of the program, the backward pass begins with the first node that serves gradients
    alone (or, where nothing is reported, with the first that serves a lower layer than it needs).
    """
    gradients = {push.crossing.tensor for layer in layers for push in layer.pushes}
    leaving = [c.tensor for c in graph.crossings if c.source.task == "worker"]
    found = {step_graph.producer(t) for t in (*graph.results, *leaving) if t not in gradients}
    for node in reversed(graph.nodes.values()):
        if node.name in found:
            found.update(step_graph.producer(i) for i in node.inputs)
    observed = any(needs.get(name) == len(layers) for name in found)
    return found if observed else set(graph.nodes)


def _highest_needed(graph, layers) -> dict[str, int]:
    """For each node, the highest layer whose pulled parameters it needs; 0 for none."""
    own = collections.defaultdict(int)
    for number, layer in enumerate(layers, start=1):
        for pull in layer.pulls:
            own.update({c.source.name: number for c in pull.crossings})
    needed: dict[str, int] = {}
    for node in graph.nodes.values():
        before = (needed.get(step_graph.producer(i), 0) for i in node.inputs)
        needed[node.name] = max(own[node.name], *before, 0)
    return needed


def _highest_served(graph, layers) -> dict[str, int]:
    """For each node, the highest layer whose gradient needs it; absent for none."""
    served: dict[str, int] = {}
    for number, layer in enumerate(layers, start=1):
        for push in layer.pushes:
            served[push.crossing.source.name] = number
    for node in reversed(graph.nodes.values()):
        after = (
            served[r] for r in graph.readers.get(node.name, ()) if _on_worker(graph, r, served)
        )
        highest = max(after, default=0)
        if highest:
            served[node.name] = max(served.get(node.name, 0), highest)
    return served


def _on_worker(graph, name: str, served: dict[str, int]) -> bool:
    return name in served and graph.nodes[name].task == "worker"
