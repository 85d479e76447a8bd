"""Whether a step's gradients need one another before they can leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph

# What is done to a finished gradient, element by element.
_ELEMENTWISE = frozenset(
    (
        *("Identity", "Snapshot", "Cast", "ClipByValue", "IsFinite", "Select", "SelectV2"),
        *("AddV2", "Div", "Maximum", "Minimum", "Mul", "Neg", "RealDiv", "Sub"),
    )
)

# What gives a finished gradient its shape, or adds up its rows; the first input is the gradient.
_SHAPING = frozenset(("ExpandDims", "Reshape", "Squeeze", "Transpose", "UnsortedSegmentSum"))


def gradients_wait_for_all(graph: step_graph.StepGraph, layers: Sequence[layers_lib.Layer]) -> bool:
    """Whether the first gradient to leave needs the last one, as under clipping by a global norm.

    Then no push can begin before the backward pass has ended.
    """
    pushing = [layer.pushes for layer in layers if layer.pushes]
    if len(pushing) < 2:
        return False
    highest = _needed(graph, [p.crossing.source for p in pushing[-1]])
    lowest = _made(graph, [p.crossing.source for p in pushing[0]])
    return all(node in highest for node in lowest)


def _needed(graph: step_graph.StepGraph, nodes: Iterable[step_graph.Node]) -> set[str]:
    """Nodes and all that they need."""
    waiting = list(nodes)
    found = {n.name for n in waiting}
    while waiting:
        fresh = [n for n in _inputs(graph, waiting.pop()) if n.name not in found]
        found.update(n.name for n in fresh)
        waiting.extend(fresh)
    return found


def _made(graph: step_graph.StepGraph, nodes: Iterable[step_graph.Node]) -> set[str]:
    """The nodes that gradients come from, before they were clipped, shaped and so on."""
    waiting, found = list(nodes), set()
    while waiting:
        node = waiting.pop()
        if node.op in _ELEMENTWISE:
            waiting.extend(_inputs(graph, node))
        elif node.op in _SHAPING:
            waiting.extend(_inputs(graph, node)[:1])
        else:
            found.add(node.name)
    return found


def _inputs(graph: step_graph.StepGraph, node: step_graph.Node) -> list[step_graph.Node]:
    names = (step_graph.producer(i) for i in node.inputs)
    return [graph.nodes[name] for name in names if name in graph.nodes]
