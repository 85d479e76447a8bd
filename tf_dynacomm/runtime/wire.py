"""The type that a tensor has on the wire: the smaller one where a cast stands at the worker's end.

Under a mixed-precision policy the worker casts what it pulls to bfloat16 before it uses it, and
casts gradients back before they leave. The same casts at the PS's end give the same bits, and half
of the bytes travel.
"""

from __future__ import annotations

from collections.abc import Iterable

from tf_dynacomm.runtime import step_graph

_FLOATS = frozenset(("float64", "float32", "float16", "bfloat16"))
_COPIES = frozenset(("Identity", "Snapshot"))


def pulled_type(
    graph: step_graph.StepGraph, crossings: Iterable[step_graph.Crossing]
) -> step_graph.TensorType:
    """The type in which the worker can be sent what it reads.

    It is that of the variable, unless every reader is a cast to one and the same smaller type.

    Args:
      graph: The step.
      crossings: The reads of one variable.
    """
    (own, *_) = (c.type for c in crossings)
    readers = {graph.nodes[name] for c in crossings for name, _ in c.readers}
    types = {graph.type_of(f"{r.name}:y:0") if r.op == "Cast" else own for r in readers}
    return types.pop() if len(types) == 1 and all(_narrower(t, own) for t in types) else own


def pushed_tensor(graph: step_graph.StepGraph, tensor: str) -> str:
    """The tensor that the worker can send instead of `tensor`, from which a cast made it.

    It is `tensor` itself, unless that is a cast from a smaller type, or a copy of one.
    """
    own, origin = graph.type_of(tensor), tensor
    while (node := graph.nodes.get(step_graph.producer(origin))) is not None:
        if node.controls or node.task != step_graph.WORKER or len(node.inputs) != 1:
            break
        if node.op == "Cast" and step_graph.producer(node.inputs[0]) in graph.nodes:
            return node.inputs[0] if _narrower(graph.type_of(node.inputs[0]), own) else tensor
        if node.op not in _COPIES:
            break
        origin = node.inputs[0]
    return tensor


def _narrower(type_: step_graph.TensorType, than: step_graph.TensorType) -> bool:
    """Whether a type holds the same elements as another one in fewer bytes."""
    floats = {type_.dtype, than.dtype} <= _FLOATS
    return floats and type_.shape == than.shape and type_.item_bytes < than.item_bytes
