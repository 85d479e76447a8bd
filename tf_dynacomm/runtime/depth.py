"""How deep in the network each layer's variables are used, from the step's data flow.

A variable may be transformed before it is used: cast to another type, transposed, laid together
from its shards, summed up by a regularizer. What counts is where it, or what was made of it, first
meets data: there the layer's computation begins, which must wait for the layers that made the data.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping

from tf_dynacomm.runtime import step_graph


@dataclasses.dataclass
class _Flow:
    """What flows out of a node.

    Attributes:
      data: Whether it depends on data, and not on variables and constants alone.
      depth: The depth of the deepest layer that it has passed.
      waiting: The layers whose variables it is made of, and that have not met data yet.
    """

    data: bool
    depth: int = 0
    waiting: tuple[str, ...] = ()


_ARGUMENT = _Flow(data=True)
_VARIABLE = _Flow(data=False)


def depths(graph: step_graph.StepGraph, owners: Mapping[str, str]) -> dict[str, int]:
    """Finds the depth of layers, from 1: one more than the deepest layer that their data needs.

    Args:
      graph: The step.
      owners: For each tensor that the worker pulls, the layer that it belongs to.

    Returns:
      The depths, by layer; without those whose variables never meet data, such as a step counter
      from which the worker works out a learning rate.
    """
    found: dict[str, int] = {}
    flows: dict[str, _Flow] = collections.defaultdict(lambda: _ARGUMENT)
    flows.update(dict.fromkeys(graph.variables, _VARIABLE))
    for node in graph.nodes.values():
        is_worker = node.task == step_graph.WORKER
        read = [
            _Flow(False, waiting=(owners[t],))
            if is_worker and t in owners
            else flows[step_graph.producer(t)]
            for t in node.inputs
        ]
        if _is_source(node) or any(flow.data for flow in read):
            flows[node.name] = _met(read, found if is_worker else {})
        else:
            waiting = dict.fromkeys(owner for flow in read for owner in flow.waiting)
            flows[node.name] = _Flow(False, waiting=tuple(waiting))
    return found


def _met(read: list[_Flow], found: dict[str, int]) -> _Flow:
    """What flows out of a node that reads data; gives their depth to the layers that meet it."""
    below = max((flow.depth for flow in read), default=0)
    met = [found.setdefault(o, below + 1) for flow in read for o in flow.waiting]
    return _Flow(True, max([below, *met]))


def _is_source(node: step_graph.Node) -> bool:
    """Whether a node makes data out of nothing, or of a shape alone."""
    return "Random" in node.op or (not node.inputs and node.op != "Const")
