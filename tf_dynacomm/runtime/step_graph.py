"""A traced step as a graph of placed nodes: what runs where, and what crosses between tasks.

The graph is read from the step's `FunctionDef`. A tensor is named as there: `"node:output:index"`,
or the bare name of a function argument. Nothing here changes the graph (see `rewrite`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import graphlib
import re
from collections.abc import Callable, Iterator, Mapping

_PS_TASK = re.compile(r"/job:ps(?:/replica:\d+)?/task:(\d+)")
WORKER = "worker"


@dataclasses.dataclass(frozen=True)
class TensorType:
    """What a tensor is made of.

    Attributes:
      dtype: NumPy-style name, such as `"float32"`.
      shape: Static shape; `None` where it is not fully known when the step is traced.
      item_bytes: Bytes of one element; 0 for types that have no fixed size, such as strings.
    """

    dtype: str
    shape: tuple[int, ...] | None
    item_bytes: int

    @property
    def size(self) -> int:
        """Number of elements; 0 when the shape is not known."""
        return 0 if self.shape is None else functools.reduce(int.__mul__, self.shape, 1)

    @property
    def size_bytes(self) -> int:
        """Bytes that the tensor takes on the wire; 0 when the shape is not known."""
        return self.size * self.item_bytes

    @property
    def is_packable(self) -> bool:
        """Whether the tensor can be flattened and laid end to end with others of its type."""
        return self.shape is not None and self.item_bytes > 0


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable that the step reads or writes.

    Attributes:
      arg: Name of the function argument that holds its handle.
      name: The variable's own name, without `:0`.
      trainable: Whether optimizers train it.
      device: Full device string, on a PS task for every shared variable.
      type: Its dtype and shape, if known.
    """

    arg: str
    name: str
    trainable: bool
    device: str
    type: TensorType | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class Node:
    """One operation of the step.

    Attributes:
      name: Its name in the function.
      op: Its type, such as `"Conv2D"`.
      device: Where it runs: a full PS device, or the worker's device as traced (may be empty).
      inputs: Tensors that it reads, in order.
      controls: Names of the nodes that it waits for without reading them.
    """

    name: str
    op: str
    device: str
    inputs: tuple[str, ...]
    controls: tuple[str, ...]

    @property
    def task(self) -> str:
        """`"worker"`, or `"ps:<task>"`."""
        return task_of(self.device)


@dataclasses.dataclass(frozen=True)
class Crossing:
    """A tensor that one task makes and another reads.

    Attributes:
      tensor: Its name.
      source: The node that makes it.
      maker: The node under whose name it is sent: what merely passes on a tensor is pruned.
      device: The device that reads it.
      readers: (node, input index) pairs on that device.
      level: How many times data has crossed between tasks on its way here, this time included.
        Tensors of one level between the same two tasks never depend on each other's arrival.
      type: Its dtype and shape.
    """

    tensor: str
    source: Node
    maker: str
    device: str
    readers: tuple[tuple[str, int], ...]
    level: int
    type: TensorType


def task_of(device: str) -> str:
    """The task that a device string names: `"worker"` or `"ps:<task>"`."""
    match = _PS_TASK.search(device)
    return f"ps:{match[1]}" if match else WORKER


def producer(tensor: str) -> str:
    """The node (or function argument) that makes a tensor."""
    return tensor.partition(":")[0]


class StepGraph:
    """The nodes of a step, in the order in which the program made them.

    Args:
      function_def: The step's `FunctionDef`.
      variables: The step's variables, by argument name.
      type_of: Gives a tensor's `TensorType`.

    Attributes:
      variables: The step's variables, by argument name.
      nodes: The nodes, by name, in the order in which the program made them.
      results: The tensors that the step returns.
    """

    def __init__(
        self,
        function_def,
        variables: Mapping[str, Variable],
        type_of: Callable[[str], TensorType],
    ):
        self.variables = dict(variables)
        self.type_of = type_of
        self.results: tuple[str, ...] = tuple(function_def.ret.values())
        self._ends = [*map(producer, self.results), *function_def.control_ret.values()]
        self.nodes: dict[str, Node] = {d.name: self._read(d) for d in function_def.node_def}
        self._place_constants_with_readers()

    def _read(self, node_def) -> Node:
        inputs = tuple(i for i in node_def.input if not i.startswith("^"))
        controls = tuple(i[1:] for i in node_def.input if i.startswith("^"))
        device = self._device(node_def, inputs)
        return Node(node_def.name, node_def.op, device, inputs, controls)

    def _device(self, node_def, inputs: tuple[str, ...]) -> str:
        """Where TensorFlow's placer puts a node: an op on a resource runs beside the resource."""
        if task_of(node_def.device) != WORKER or _calls_functions(node_def):
            return node_def.device
        handles = [self.variables[i] for i in inputs if i in self.variables]
        return handles[0].device if handles else node_def.device

    def _place_constants_with_readers(self):
        """A constant without a device goes to its only reader, as TensorFlow's placer does it."""
        for node in list(self.nodes.values()):
            readers = self.readers.get(node.name, ())
            if node.op == "Const" and not node.device and len(readers) == 1:
                device = self.nodes[readers[0]].device
                self.nodes[node.name] = dataclasses.replace(node, device=device)

    @functools.cached_property
    def readers(self) -> dict[str, list[str]]:
        """For each node, the nodes that read its outputs, in program order."""
        readers = collections.defaultdict(list)
        for node in self.nodes.values():
            for source in dict.fromkeys(producer(i) for i in node.inputs):
                readers[source].append(node.name)
        return dict(readers)

    @functools.cached_property
    def waiting_beside(self) -> dict[str, list[str]]:
        """For each node, the nodes of the same task that wait for it, by data or by control."""
        waiting = collections.defaultdict(list)
        for node in self.nodes.values():
            for source in self.sources(node):
                if source.task == node.task:
                    waiting[source.name].append(node.name)
        return dict(waiting)

    def sources(self, node: Node) -> Iterator[Node]:
        """The nodes that `node` waits for, by data or by control."""
        for name in (*(producer(i) for i in node.inputs), *node.controls):
            if name in self.nodes:
                yield self.nodes[name]

    @functools.cached_property
    def live(self) -> frozenset[str]:
        """The nodes that results or side effects need; TensorFlow prunes the others."""
        writers = (n.name for n in self.nodes.values() if any(self.written_by(n)))
        waiting = [name for name in (*self._ends, *writers) if name in self.nodes]
        live = set(waiting)
        while waiting:
            fresh = {s.name for s in self.sources(self.nodes[waiting.pop()])} - live
            live |= fresh
            waiting.extend(fresh)
        return frozenset(live)

    @functools.cached_property
    def topological(self) -> list[Node]:
        """All nodes, each after the nodes that it waits for."""
        waits = {n.name: {s.name for s in self.sources(n)} for n in self.nodes.values()}
        return [self.nodes[name] for name in graphlib.TopologicalSorter(waits).static_order()]

    @functools.cached_property
    def level(self) -> dict[str, int]:
        """For each node, the most crossings between tasks on any path that leads to it."""
        level: dict[str, int] = {}
        for node in self.topological:
            steps = (level[s.name] + (s.task != node.task) for s in self.sources(node))
            level[node.name] = max(steps, default=0)
        return level

    @functools.cached_property
    def crossings(self) -> list[Crossing]:
        """Every tensor that crosses from one task to another, once per reading device."""
        readers: dict[tuple[str, str], list[tuple[str, int]]] = collections.defaultdict(list)
        for node in (n for n in self.nodes.values() if n.name in self.live):
            for index, tensor in enumerate(node.inputs):
                source = self.nodes.get(producer(tensor))
                if source is not None and source.task != node.task:
                    readers[tensor, node.device].append((node.name, index))
        return [self._crossing(tensor, device, tuple(r)) for (tensor, device), r in readers.items()]

    def _crossing(self, tensor: str, device: str, readers: tuple[tuple[str, int], ...]) -> Crossing:
        source = self.nodes[producer(tensor)]
        level = self.level[source.name] + 1
        maker = self._maker(source).name
        return Crossing(tensor, source, maker, device, readers, level, self.type_of(tensor))

    def _maker(self, node: Node) -> Node:
        while node.op in _PASSING_ON and (before := self.nodes.get(producer(node.inputs[0]))):
            node = before
        return node

    def gathers(self) -> Iterator[tuple[Node, Variable]]:
        """The nodes that gather rows of a variable on its PS task, each with the variable."""
        for node in self.nodes.values():
            if node.op in _GATHERS and node.name in self.live and node.task != WORKER:
                read = self.nodes.get(producer(node.inputs[0]))
                table = node.inputs[0] if read is None else read.inputs[0]
                if table in self.variables:
                    yield node, self.variables[table]

    def written_by(self, node: Node) -> Iterator[Variable]:
        """The variables that a node may write."""
        if node.op not in _READS:
            yield from (self.variables[i] for i in node.inputs if i in self.variables)


_PASSING_ON = frozenset(("Identity", "PreventGradient", "StopGradient"))  # Grappler prunes them.
_GATHERS = frozenset(("ResourceGather", "ResourceGatherNd", "GatherV2"))
_READS = frozenset(
    ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")
)


def _calls_functions(node_def) -> bool:
    """Whether a node runs functions (`If`, `While`, calls): its body is placed op by op."""
    return any(a.HasField("func") or a.list.func for a in node_def.attr.values())
