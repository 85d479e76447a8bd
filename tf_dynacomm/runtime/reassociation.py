"""Finds the pulls that must not be packed, lest TensorFlow computes with them in another order.

TensorFlow's graph optimizer turns `(a + b) + constant` into `a + (b + constant)`, and the same with
products, if all of it is on one device. A variable that is read on a parameter server stops it; a
piece of a pack is on the worker and would not, so that the last bits might differ from stock's.
"""

from __future__ import annotations

from tf_dynacomm.runtime import layers, step_graph

_SUM = frozenset(("Add", "AddV2", "Sub", "BiasAdd"))
_PRODUCT = frozenset(("Mul", "Div", "RealDiv"))
_SHAPES = frozenset(("Rank", "Shape", "Size"))
_MAX_DEPTH = 6  # Of operations between constants and what they give.


def meets_a_constant(graph: step_graph.StepGraph, pull: layers.Pull) -> bool:
    """Whether a constant could be moved towards a variable: along a chain of sums, or of products.

    Args:
      graph: The step's graph.
      pull: How the variable travels.
    """
    readers = (graph.nodes[name] for c in pull.crossings for name, _ in c.readers)
    return any(_chain_has_constant(graph, reader) for reader in readers)


def _chain_has_constant(graph: step_graph.StepGraph, node: step_graph.Node) -> bool:
    """Whether what follows a node, each being all that reads the one before, adds a constant."""
    kinds = next((kinds for kinds in (_SUM, _PRODUCT) if node.op in kinds), frozenset())
    while kinds:
        readers = [n for n in graph.readers.get(node.name, ()) if n in graph.live]
        if len(readers) != 1 or graph.nodes[readers[0]].op not in kinds:
            return False
        operand, node = node.name, graph.nodes[readers[0]]
        others = [t for t in node.inputs if step_graph.producer(t) != operand]
        if any(_is_constant(graph, tensor) for tensor in others):
            return True
    return False


def _is_constant(graph: step_graph.StepGraph, tensor: str, depth: int = _MAX_DEPTH) -> bool:
    """Whether a tensor is known before the step runs."""
    node = graph.nodes.get(step_graph.producer(tensor))
    if node is None or depth == 0:
        return False
    if node.op == "Const" or node.op in _SHAPES:
        return True
    return bool(node.inputs) and all(_is_constant(graph, t, depth - 1) for t in node.inputs)
