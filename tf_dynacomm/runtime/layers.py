"""The layer table: which variables a step pulls and pushes, grouped into layers in forward order.

Names differ between Keras versions and custom loops; the data flow of the traced step does not.
A layer's depth is one more than that of the deepest layer that its input needs, and layers of the
same depth, the branches of a network, count as one (DynaComm, arXiv 2101.07968, section III).
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Container, Sequence

from tf_dynacomm.runtime import step_graph, wire
from tf_dynacomm.runtime.depth import depths

_SHARD = re.compile(r"/part_\d+$")


@dataclasses.dataclass(frozen=True)
class Pull:
    """One variable that the worker reads from a PS task.

    Attributes:
      variable: The variable.
      crossings: Its reads. All give the same value: none follows a write of the same step.
      type: Its type on the wire (see `wire`).
    """

    variable: step_graph.Variable
    crossings: tuple[step_graph.Crossing, ...]
    type: step_graph.TensorType

    @property
    def size_bytes(self) -> int:
        """Bytes that travel."""
        return self.type.size_bytes


@dataclasses.dataclass(frozen=True)
class Push:
    """One tensor that the worker sends to a PS task to update a variable.

    Attributes:
      variable: The variable that it trains.
      crossing: The tensor and its readers.
      tensor: What travels in its place: the same, or what the worker casts it from (see `wire`).
      type: The type of what travels.
    """

    variable: step_graph.Variable
    crossing: step_graph.Crossing
    tensor: str
    type: step_graph.TensorType

    @property
    def size_bytes(self) -> int:
        """Bytes that travel."""
        return self.type.size_bytes


@dataclasses.dataclass(frozen=True)
class Layer:
    """What one layer moves.

    Attributes:
      name: The layer's name; merged branches are named after the first of them.
      pulls: The variables that its forward pass needs.
      pushes: The gradients that its backward pass makes.
    """

    name: str
    pulls: tuple[Pull, ...]
    pushes: tuple[Push, ...]

    @property
    def pull_bytes(self) -> int:
        """Bytes that a pull of this layer moves."""
        return sum(p.size_bytes for p in self.pulls)

    @property
    def push_bytes(self) -> int:
        """Bytes that a push of this layer moves."""
        return sum(p.size_bytes for p in self.pushes)


def layer_table(graph: step_graph.StepGraph) -> tuple[Layer, ...]:
    """Finds the layers of a traced step, in forward order.

    Only variables that the worker reads, dense and before any write of the step, and uses on data
    belong to layers: optimizer slots stay on the PS, rows of embeddings are gathered there, and the
    step counter only tells the learning rate.
    """
    pulls = _pulls(graph)
    depth = depths(graph, {c.tensor: _owner(p) for p in pulls for c in p.crossings})
    pulls = [pull for pull in pulls if _owner(pull) in depth]
    pushes = collections.defaultdict(list)
    for push in _pushes(graph, pulls):
        pushes[push.variable.arg].append(push)
    by_depth = collections.defaultdict(list)
    for pull in pulls:
        by_depth[depth[_owner(pull)]].append(pull)
    return tuple(_layer(by_depth[d], pushes) for d in sorted(by_depth))


def _layer(pulls: list[Pull], pushes: dict[str, list[Push]]) -> Layer:
    owners = list(dict.fromkeys(_owner(p) for p in pulls))
    name = owners[0] if len(owners) == 1 else f"{owners[0]} (+{len(owners) - 1})"
    return Layer(name, tuple(pulls), tuple(g for p in pulls for g in pushes[p.variable.arg]))


def _pulls(graph: step_graph.StepGraph) -> list[Pull]:
    reads = collections.defaultdict(list)
    for crossing in graph.crossings:
        if _is_first_read(graph, crossing):
            reads[crossing.source.inputs[0]].append(crossing)
    return [
        Pull(graph.variables[arg], tuple(crossings), wire.pulled_type(graph, crossings))
        for arg, crossings in reads.items()
    ]


def _is_first_read(graph: step_graph.StepGraph, crossing: step_graph.Crossing) -> bool:
    node = crossing.source
    return (
        node.op == "ReadVariableOp"
        and not node.controls
        and node.inputs[0] in graph.variables
        and step_graph.task_of(crossing.device) == step_graph.WORKER
        and crossing.type.is_packable
    )


def _owner(pull: Pull) -> str:
    """The layer of a variable: `conv2d` for `conv2d/kernel`, else the scope that reads it."""
    name = _SHARD.sub("", pull.variable.name)
    if "/" in name:
        return name.rpartition("/")[0]
    scope = pull.crossings[0].source.name.rpartition("/")[0]
    return scope.rpartition("/")[0] or scope or pull.variable.arg


def _pushes(graph: step_graph.StepGraph, pulls: Sequence[Pull]) -> list[Push]:
    trained = {p.variable.arg for p in pulls if p.variable.trainable}
    computed = _computed_from(graph, {c.tensor for p in pulls for c in p.crossings})
    found = []
    for crossing in graph.crossings:
        if crossing.source.name in computed and crossing.type.is_packable:
            updated = _updated_variables(graph, crossing, trained)
            if len(updated) == 1:
                tensor = wire.pushed_tensor(graph, crossing.tensor)
                found.append(Push(updated.pop(), crossing, tensor, graph.type_of(tensor)))
    return found


def _computed_from(graph: step_graph.StepGraph, pulled: Container[str]) -> set[str]:
    """The nodes of the worker that need what it pulls: gradients, but no learning rate."""
    found: set[str] = set()
    for node in graph.nodes.values():
        needs = any(i in pulled or step_graph.producer(i) in found for i in node.inputs)
        if needs and node.task == step_graph.WORKER:
            found.add(node.name)
    return found


def _updated_variables(graph, crossing, trained) -> set[step_graph.Variable]:
    """The trained variables that the PS updates with a tensor, directly or through their slots.

    A gradient updates one variable. A tensor that reaches several, such as a learning rate, is
    none, so that the search ends at the second.
    """
    queue = collections.deque(reader for reader, _ in crossing.readers)
    seen, updated = set(queue), set()
    while queue and len(updated) < 2:
        node = graph.nodes[queue.popleft()]
        updated.update(v for v in graph.written_by(node) if v.arg in trained)
        fresh = [n for n in graph.waiting_beside.get(node.name, ()) if n not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    return updated
