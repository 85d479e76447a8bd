"""The layer table: which variables a step pulls and pushes, grouped into layers in forward order.

Names differ between Keras versions and custom loops; the data flow of the traced step does not.
A layer's depth is one more than that of the deepest layer that its input needs, and layers of the
same depth, the branches of a network, count as one (DynaComm, arXiv 2101.07968, section III).
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable

from tf_dynacomm.runtime import step_graph

_SHARD = re.compile(r"/part_\d+$")


@dataclasses.dataclass(frozen=True)
class Pull:
    """One variable that the worker reads from a PS task.

    Attributes:
      variable: The variable.
      crossings: Its reads. All give the same value: none follows a write of the same step.
    """

    variable: step_graph.Variable
    crossings: tuple[step_graph.Crossing, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the variable."""
        return self.crossings[0].type.size_bytes


@dataclasses.dataclass(frozen=True)
class Push:
    """One tensor that the worker sends to a PS task to update a variable.

    Attributes:
      variable: The variable that it trains.
      crossing: The tensor and its readers.
    """

    variable: step_graph.Variable
    crossing: step_graph.Crossing

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor."""
        return self.crossing.type.size_bytes


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

    Only variables that the worker reads, dense and before any write of the step, belong to layers:
    optimizer slots stay on the PS, rows of embeddings are gathered there.
    """
    pulls = _pulls(graph)
    depth = _depths(graph, {c.tensor: p for p in pulls for c in p.crossings})
    pushes = collections.defaultdict(list)
    for push in _pushes(graph, {p.variable.arg for p in pulls}):
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
    return [Pull(graph.variables[arg], tuple(crossings)) for arg, crossings in reads.items()]


def _is_first_read(graph: step_graph.StepGraph, crossing: step_graph.Crossing) -> bool:
    node = crossing.source
    return (
        node.op == "ReadVariableOp"
        and not node.controls
        and node.inputs[0] in graph.variables
        and step_graph.task_of(crossing.device) == "worker"
        and crossing.type.is_packable
    )


def _owner(pull: Pull) -> str:
    """The layer of a variable: `conv2d` for `conv2d/kernel`, else the scope that reads it."""
    name = _SHARD.sub("", pull.variable.name)
    if "/" in name:
        return name.rpartition("/")[0]
    scope = pull.crossings[0].source.name.rpartition("/")[0]
    return scope.rpartition("/")[0] or scope or pull.variable.arg


def _depths(graph: step_graph.StepGraph, pull_of: dict[str, Pull]) -> dict[str, int]:
    depth: dict[str, int] = {}
    reached: dict[str, int] = collections.defaultdict(int)
    for node in graph.nodes.values():
        needs = max((reached[step_graph.producer(i)] for i in node.inputs), default=0)
        for tensor in node.inputs:
            if tensor in pull_of and graph.nodes[node.name].task == "worker":
                owner = _owner(pull_of[tensor])
                needs = max(needs, depth.setdefault(owner, needs + 1))
        reached[node.name] = needs
    return depth


def _pushes(graph: step_graph.StepGraph, pulled: Iterable[str]) -> list[Push]:
    trained = {a for a in pulled if graph.variables[a].trainable}
    waiting = _waiting_nodes(graph)
    found = []
    for crossing in graph.crossings:
        if crossing.source.task == "worker" and crossing.type.is_packable:
            updated = _updated_variables(graph, crossing, trained, waiting)
            if len(updated) == 1:
                found.append(Push(updated.pop(), crossing))
    return found


def _waiting_nodes(graph: step_graph.StepGraph) -> dict[str, list[str]]:
    """For each node, the nodes of the same task that wait for it, by data or by control."""
    waiting = collections.defaultdict(list)
    for node in graph.nodes.values():
        for source in graph.sources(node):
            if source.task == node.task:
                waiting[source.name].append(node.name)
    return waiting


def _updated_variables(graph, crossing, trained, waiting) -> set[step_graph.Variable]:
    """The trained variables that the PS updates with a tensor, directly or through their slots.

    A gradient updates one variable. A tensor that reaches several, such as a learning rate, is
    none, so that the search ends at the second.
    """
    queue = collections.deque(reader for reader, _ in crossing.readers)
    seen, updated = set(queue), set()
    while queue and len(updated) < 2:
        node = graph.nodes[queue.popleft()]
        updated.update(v for v in graph.written_by(node) if v.arg in trained)
        fresh = [n for n in waiting[node.name] if n not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    return updated
