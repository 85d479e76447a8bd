"""Applies a plan to a traced step: packs what crosses the network into the plan's segments.

The step's own operations stay as they are; only the edges between tasks change. A segment is packed
into one tensor on the task that sends it (flattened, laid end to end) and unpacked on the task that
reads it, so that it travels in one RPC for each PS task and dtype, and every operation still reads
the very same bits. Control dependencies give the order:

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
from tf_dynacomm.runtime import graph_builder, layers, step_graph

# Beyond its segments a step packs only small tensors: large ones would hold each other up.
_MAX_EXTRA_BYTES = 1 << 20
_WORKER_CPU = "/device:CPU:0"

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class _Parcel:
    """One tensor to pack: where it comes from, and every reader that is to read its copy."""

    tensor: str
    type: step_graph.TensorType
    source: str
    target: str
    level: int
    readers: tuple[tuple[str, int], ...]

    @property
    def route(self) -> tuple:
        """What parcels must share to travel together."""
        tasks = step_graph.task_of(self.source), step_graph.task_of(self.target)
        return *tasks, self.type.dtype, self.level


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
    packed = _pack_pulls(builder, table, plan) | _pack_pushes(builder, table, plan)
    _pack_extras(builder, graph, packed)
    _gather_controls(builder, graph)
    return builder.function_def


def _pack_pulls(builder, table, plan) -> set[str]:
    """Packs and orders the pull segments; returns the tensors that they carry."""
    tokens: list[str] = []
    packed: set[str] = set()
    for number, (first, last) in enumerate(plan.pull, start=1):
        pulls = [p for layer in table[first - 1 : last] for p in layer.pulls]
        scope = f"dynacomm/pull_{number}"
        if len(tokens) >= plan.credit:
            for pull in pulls:
                builder.add_control(pull.crossings[0].source.name, tokens[-plan.credit])
        parcels = [_parcel(p.crossings) for p in pulls]
        received = _send_grouped(builder, scope, parcels)
        tokens.append(builder.no_op(f"{scope}/arrived", parcels[0].target, received))
        packed.update(c.tensor for p in pulls for c in p.crossings)
    return packed


def _pack_pushes(builder, table, plan) -> set[str]:
    """Packs the push segments; returns the tensors that they carry."""
    packed: set[str] = set()
    for number, (first, last) in enumerate(plan.push, start=1):
        crossings = [g.crossing for layer in table[first - 1 : last] for g in layer.pushes]
        _send_grouped(builder, f"dynacomm/push_{number}", [_parcel([c]) for c in crossings])
        packed.update(c.tensor for c in crossings)
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
        if len(group) > 1:
            _send(builder, "dynacomm/extra_" + "_".join(map(str, route)).replace(":", ""), group)


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
    """One parcel for crossings that carry the same value to the same task."""
    first = crossings[0]
    target = next((c.device for c in crossings if c.device), _WORKER_CPU)
    source = first.source.device or _WORKER_CPU
    readers = tuple(r for c in crossings for r in c.readers)
    return _Parcel(first.tensor, first.type, source, target, first.level, readers)


def _send_grouped(builder, scope: str, parcels: Sequence[_Parcel]) -> list[str]:
    """Sends parcels, those of one route together; returns the nodes at which they arrive."""
    groups = _grouped(parcels, lambda p: p.route)
    return [_send(builder, f"{scope}/{_name(r)}", group) for r, group in groups.items()]


def _name(route: tuple) -> str:
    source, target, dtype, _ = route
    return f"{(target if source == 'worker' else source).replace(':', '')}/{dtype}"


def _send(builder, scope: str, parcels: Sequence[_Parcel]) -> str:
    """Packs parcels, sends them as one tensor and unpacks them; returns the node of arrival."""
    first = parcels[0]
    dtype = first.type.dtype
    if len(parcels) == 1:
        sent = builder.lasting_identity(f"{scope}/pack", first.source, first.tensor, dtype)
        received = builder.identity(f"{scope}/receive", first.target, sent, dtype)
        _deliver(builder, first, received)
    else:
        flat = [_flatten(builder, scope, p) for p in parcels]
        sent = builder.concat(f"{scope}/pack", first.source, flat, dtype)
        received = builder.identity(f"{scope}/receive", first.target, sent, dtype)
        sizes = [p.type.size for p in parcels]
        pieces = builder.split(f"{scope}/unpack", first.target, received, dtype, sizes)
        for parcel, piece in zip(parcels, pieces, strict=True):
            shape = parcel.type.shape
            piece = builder.reshape(f"{scope}/piece", first.target, piece, dtype, shape)
            _deliver(builder, parcel, piece)
    return step_graph.producer(received)


def _flatten(builder, scope: str, parcel: _Parcel) -> str:
    return builder.reshape(f"{scope}/flat", parcel.source, parcel.tensor, parcel.type.dtype, [-1])


def _deliver(builder, parcel: _Parcel, tensor: str) -> None:
    for node, index in parcel.readers:
        builder.set_input(node, index, tensor)


def _grouped(items: Iterable[T], key: Callable[[T], object]) -> dict:
    groups = collections.defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
