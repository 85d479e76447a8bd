"""Applies a plan to a traced step: packs what crosses the network into the plan's segments.

The step's own operations stay as they are; only the edges between tasks change. A segment is packed
into one tensor on the task that sends it (flattened, laid end to end) and unpacked on the task that
reads it, so that it travels in one RPC for each PS task and dtype (in more if it is larger than a
pack may be), and every operation still reads the very same bits. Control dependencies give the
order, and bound what is under way to `credit` pull segments:

* the variables of pull segment j + credit are read on the PS only when segment j has arrived at the
  worker (its *token*), so that the link carries the segments in the planned order;
* a push segment leaves when its last gradient is ready.

What crosses besides (moving statistics, metrics, counters) is packed by level (see
`step_graph.Crossing`), which can never close a cycle; control edges are gathered on the task where
they start, so that they cross once.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.runtime import graph_builder, layers, reassociation, step_graph

# Beyond its segments a step packs only small tensors: large ones would hold each other up.
_MAX_EXTRA_BYTES = 1 << 20
# A pack exists twice while it is made, and twice while gRPC hands it over. Larger packs would need
# much memory on workers, and leave later than they could; gRPC refuses messages of 2 GiB.
MAX_PACK_BYTES = 16 << 20
# TensorFlow cuts a tensor out of a pack without copying if it begins and ends at such a multiple.
_ALIGNED_BYTES = 64

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class _Parcel:
    """One tensor to send, and every reader that is to read its copy.

    Attributes:
      tensor: The tensor; it is cast to `type` before it is sent if its `dtype` is another.
      maker: The node under whose name it would be sent by itself.
      type: What it is on the wire.
      read_as: The dtype that it is cast to, if need be, where it arrives.
    """

    tensor: str
    maker: str
    dtype: str
    type: step_graph.TensorType
    read_as: str
    source: str
    target: str
    level: int
    readers: tuple[tuple[str, int], ...]

    @property
    def route(self) -> tuple:
        """What parcels must share to travel together."""
        tasks = step_graph.task_of(self.source), step_graph.task_of(self.target)
        return *tasks, self.type.dtype, self.level

    @property
    def is_aligned(self) -> bool:
        """Whether it ends at a multiple of `_ALIGNED_BYTES` if it begins at one."""
        return self.type.size_bytes % _ALIGNED_BYTES == 0


def rewrite(
    function_def,
    name: str,
    graph: step_graph.StepGraph,
    table: Sequence[layers.Layer],
    plan: plan_lib.Plan,
):
    """Returns a copy of a step's `FunctionDef` that moves data as `plan` says.

    Args:
      function_def: The step as traced.
      name: The name of the new function.
      graph: The step's graph.
      table: Its layers, in forward order.
      plan: A plan for as many layers.

    Raises:
      plan.PlanMismatchError: If the plan is for another number of layers than the step has.
    """
    if plan.num_layers != len(table):
        raise plan_lib.PlanMismatchError(
            f"`plan` is for {plan.num_layers} layers; this step has {len(table)}. "
            "Make the plan from a trace of this model."
        )
    builder = graph_builder.GraphBuilder(function_def, name)
    packed = _pack_pulls(builder, graph, table, plan) | _pack_pushes(builder, table, plan)
    _pack_extras(builder, graph, packed)
    _gather_controls(builder, graph)
    return builder.function_def


def _pack_pulls(builder, graph, table, plan) -> set[str]:
    """Packs and orders the pull segments; returns the tensors that they carry.

    What `reassociation` finds keeps its own transfer, within its segment's turn.
    """
    tokens: list[str] = []
    packed: set[str] = set()
    for number, (first, last) in enumerate(plan.pull, start=1):
        pulls = [p for layer in table[first - 1 : last] for p in layer.pulls]
        scope = f"dynacomm/pull_{number}"
        if len(tokens) >= plan.credit:
            for pull in pulls:
                builder.add_control(pull.crossings[0].source.name, tokens[-plan.credit])
        bare = [p for p in pulls if reassociation.meets_a_constant(graph, p)]
        parcels = [_pull_parcel(builder, p) for p in pulls if p not in bare]
        received = _send_grouped(builder, scope, parcels)
        received += [_receive_bare(builder, scope, p.crossings[0]) for p in bare]
        target = _parcel(pulls[0].crossings).target
        tokens.append(builder.no_op(f"{scope}/arrived", target, received))
        packed.update(c.tensor for p in pulls for c in p.crossings)
    return packed


def _receive_bare(builder, scope: str, crossing: step_graph.Crossing) -> str:
    """Returns a node that waits for a tensor which travels by itself."""
    tensor, dtype = crossing.tensor, crossing.type.dtype
    arrived = builder.lasting_identity(f"{scope}/bare", crossing.device, tensor, dtype)
    return step_graph.producer(arrived)


def _pack_pushes(builder, table, plan) -> set[str]:
    """Packs the push segments; returns the tensors that they carry."""
    packed: set[str] = set()
    for number, (first, last) in enumerate(plan.push, start=1):
        pushes = [push for layer in table[first - 1 : last] for push in layer.pushes]
        _send_grouped(builder, f"dynacomm/push_{number}", [_push_parcel(p) for p in pushes])
        packed.update(push.crossing.tensor for push in pushes)
    return packed


def _pack_extras(builder, graph, packed: set[str]) -> None:
    """Packs what crosses in no segment, by route and level."""
    crossings = collections.defaultdict(list)
    for crossing in graph.crossings:
        small = crossing.type.is_packable and crossing.type.size_bytes <= _MAX_EXTRA_BYTES
        if small and crossing.tensor not in packed:
            crossings[crossing.tensor, step_graph.task_of(crossing.device)].append(crossing)
    parcels = [_parcel(c) for c in crossings.values()]
    for route, group in _grouped(parcels, lambda p: p.route).items():
        scope = "dynacomm/extra_" + "_".join(map(str, route)).replace(":", "")
        for pack in _capped(group):
            if len(pack) > 1:
                _send(builder, scope, pack)


def _gather_controls(builder, graph) -> None:
    """Lets the control edges from one task to a node of another cross as one."""
    for node in graph.nodes.values():
        remote = [c for c in node.controls if graph.nodes[c].task != node.task]
        for task, names in _grouped(remote, lambda c: graph.nodes[c].task).items():
            if len(names) > 1:
                device = graph.nodes[names[0]].device
                scope = f"dynacomm/gather/{node.name}/{task.replace(':', '')}"
                builder.replace_controls(node.name, names, builder.no_op(scope, device, names))


def _parcel(crossings: Sequence[step_graph.Crossing]) -> _Parcel:
    """One parcel for crossings that carry the same value to the same task.

    Its ends have the devices of what they serve, GPU or CPU; a device left open is the worker's.
    """
    first = crossings[0]
    type_, source = first.type, first.source.device
    target = next((c.device for c in crossings if c.device), "")
    readers = tuple(r for c in crossings for r in c.readers)
    what = first.tensor, first.maker, type_.dtype, type_, type_.dtype
    return _Parcel(*what, source, target, first.level, readers)


def _pull_parcel(builder, pull: layers.Pull) -> _Parcel:
    """A parcel for a variable. If it is cast before it is sent, its readers, casts, just copy."""
    parcel = _parcel(pull.crossings)
    if pull.type.dtype == parcel.dtype:
        return parcel
    for node, _ in parcel.readers:
        builder.set_type(node, "SrcT", pull.type.dtype)
    return dataclasses.replace(parcel, type=pull.type, read_as=pull.type.dtype)


def _push_parcel(push: layers.Push) -> _Parcel:
    """A parcel for a gradient. If it was made by a cast, that is done where it arrives."""
    parcel, dtype = _parcel([push.crossing]), push.type.dtype
    return dataclasses.replace(parcel, tensor=push.tensor, dtype=dtype, type=push.type)


def _send_grouped(builder, scope: str, parcels: Sequence[_Parcel]) -> list[str]:
    """Sends parcels, those of one route together; returns the nodes at which they arrive."""
    return [
        _send(builder, f"{scope}/{_name(route)}", pack)
        for route, group in _grouped(parcels, lambda p: p.route).items()
        for pack in _capped(group)
    ]


def _capped(parcels: Iterable[_Parcel]) -> list[list[_Parcel]]:
    """Cuts parcels into packs that are not too large; a parcel that is larger goes alone."""
    packs: list[list[_Parcel]] = []
    room = 0
    for parcel in parcels:
        room -= parcel.type.size_bytes
        if room < 0:
            packs.append([])
            room = MAX_PACK_BYTES - parcel.type.size_bytes
        packs[-1].append(parcel)
    return packs


def _name(route: tuple) -> str:
    source, target, dtype, _ = route
    return f"{(target if source == 'worker' else source).replace(':', '')}/{dtype}"


def _send(builder, scope: str, parcels: Sequence[_Parcel]) -> str:
    """Packs parcels, sends them as one tensor and unpacks them; returns the node of arrival."""
    parcels = sorted(parcels, key=lambda p: not p.is_aligned)
    first = parcels[0]
    dtype = first.type.dtype
    if len(parcels) == 1:
        scope = _beside_source(scope, first)
        tensor = _cast_to_send(builder, scope, first)
        sent = builder.lasting_identity(f"{scope}/pack", first.source, tensor, dtype)
        received = builder.identity(f"{scope}/receive", first.target, sent, dtype)
        _deliver(builder, scope, first, received)
    else:
        flat = [_flatten(builder, scope, p) for p in parcels]
        sent = builder.concat(f"{scope}/pack", first.source, flat, dtype)
        received = builder.identity(f"{scope}/receive", first.target, sent, dtype)
        begin = 0
        for parcel in parcels:
            own = _beside_source(scope, parcel)
            _deliver(builder, own, parcel, _piece(builder, own, parcel, received, begin))
            begin += parcel.type.size
    return step_graph.producer(received)


def _beside_source(scope: str, parcel: _Parcel) -> str:
    """A scope of names that come where its maker's name does in alphabetical order.

    TensorFlow's graph optimizer multiplies tensors of one element in the order of their names.
    """
    return f"{parcel.maker}/{scope}"


def _cast_to_send(builder, scope: str, parcel: _Parcel) -> str:
    tensor, dtype, sent = parcel.tensor, parcel.dtype, parcel.type.dtype
    if dtype == sent:
        return tensor
    return builder.cast(f"{scope}/cast", parcel.source, tensor, dtype, sent)


def _flatten(builder, scope: str, parcel: _Parcel) -> str:
    tensor = _cast_to_send(builder, scope, parcel)
    return _reshape(builder, f"{scope}/flat", parcel.source, tensor, parcel, [-1])


def _piece(builder, scope: str, parcel: _Parcel, pack: str, begin: int) -> str:
    """A parcel's tensor, cut out of the pack."""
    device, type_ = parcel.target, parcel.type
    piece = builder.slice(f"{scope}/unpack", device, pack, type_.dtype, begin, type_.size)
    return _reshape(builder, f"{scope}/piece", device, piece, parcel, type_.shape)


def _reshape(builder, name: str, device: str, tensor: str, parcel: _Parcel, shape) -> str:
    """Another shape for a parcel's tensor, unless that is flat anyway."""
    if len(parcel.type.shape) == 1:
        return tensor
    return builder.reshape(name, device, tensor, parcel.type.dtype, shape)


def _deliver(builder, scope: str, parcel: _Parcel, tensor: str) -> None:
    """Lets the parcel's readers read a tensor that has arrived."""
    dtype, read_as = parcel.type.dtype, parcel.read_as
    if dtype != read_as:
        tensor = builder.cast(f"{scope}/cast", parcel.target, tensor, dtype, read_as)
    for node, index in parcel.readers:
        builder.set_input(node, index, tensor)


def _grouped(items: Iterable[T], key: Callable[[T], object]) -> dict:
    groups = collections.defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
