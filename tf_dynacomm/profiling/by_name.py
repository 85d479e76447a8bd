"""Costs from names alone, for a trace whose step was not saved beside it: a coarser answer.

Without the step's graph nothing tells the bytes of a variable, nor what an operation needs. Keras
names operations after their layers, though, and every layer reads its variables under its own name:

* A layer is the scope of a read (`…/conv2d/Conv2D/ReadVariableOp` is of `…/conv2d`) whose gradients
  are sent; layers come in the order in which their operations first run.
* An operation belongs to the layer whose scope is in its name, backward if that begins with
  `gradient_tape` or `gradients`; one without a layer, to the part of the one before it.
* A layer's transfer takes its share of the time in which anything is transferred: all tensors under
  way at a moment share the link equally. The overhead is that of the quickest tensor.

That is for steps that run as stock: the segments of a plan do not tell what is in them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm.profiling import (
    compute,
    link,
    measure,
    measured_steps,
    step_record,
    trace,
    transfers,
)

_READ = re.compile(r"ReadVariableOp(_\d+)?")
_BACKWARD = re.compile(r"(?:^|/)(?:gradient_tape|gradients)/")
_UNKNOWN_RATE = float("nan")


def measure_by_name(
    worker: trace.HostTrace, ps: Mapping[str, trace.HostTrace]
) -> tuple[measure.Measurement, list[measured_steps.MeasuredStep]]:
    """Reads a worker's costs, and its whole steps, from the trace of a step that ran as stock.

    Raises:
      trace.TraceError: If the trace holds no whole step of layers that the names tell.
      trace.TraceError: If a clock was set while the trace was taken.
    """
    offsets = transfers.clock_offsets(worker, ps)
    names = _layers(worker, ps)
    found = _Reader(worker, ps, offsets, names).read()
    if not found:
        raise trace.TraceError(
            f"The trace of {worker.host} holds no whole step whose names tell its layers, and the "
            f"step ({step_record.NAME}) was not saved beside it."
        )
    found.sort(key=lambda f: f.step.begin_s)
    return _measurement(found, names, offsets), [f.step for f in found]


def scope_of(read: str) -> str | None:
    """The layer of a read: `net/conv2d` for `net/conv2d/Conv2D/ReadVariableOp`; `None` for others.

    >>> scope_of("net/conv2d/Conv2D/ReadVariableOp"), scope_of("net/norm/ReadVariableOp_1")
    ('net/conv2d', 'net/norm')
    """
    scope, _, last = read.rpartition("/")
    if not scope or not _READ.fullmatch(last):
        return None
    outer, _, inner = scope.rpartition("/")
    return outer if outer and inner[:1].isupper() else scope


def _layers(worker: trace.HostTrace, ps: Mapping[str, trace.HostTrace]) -> list[str]:
    """The layers in the order in which their operations first run, in the step that has most."""
    sent = {
        source
        for host in ps.values()
        for step in host.steps.values()
        for source in step.transfers
        if _BACKWARD.search(source)
    }
    fullest = max(worker.steps.values(), key=lambda s: len(s.transfers), default=None)
    if fullest is None:
        return []
    scopes = {scope for source in fullest.transfers if (scope := scope_of(source))}
    trained = {scope for scope in scopes if any(_holds(source, scope) for source in sent)}
    begun = [_find(o.node, trained) for o in fullest.operations if not _BACKWARD.search(o.node)]
    return [scope for scope in dict.fromkeys(begun) if scope is not None]


def _holds(name: str, scope: str) -> bool:
    return f"/{scope}/" in f"/{name}/"


def _find(name: str, scopes: Iterable[str]) -> str | None:
    """The longest of the scopes that a name is in."""
    return max((scope for scope in scopes if _holds(name, scope)), key=len, default=None)


@dataclasses.dataclass(frozen=True)
class _Found:
    """A step, and its layers' shares of the link's time each way; shape (L,)."""

    step: measured_steps.MeasuredStep
    pull_s: np.ndarray
    push_s: np.ndarray


class _Reader:
    """Reads steps by the names of their layers."""

    def __init__(self, worker, ps, offsets, layers: Sequence[str]):
        self._worker, self._ps, self._offsets, self._layers = worker, ps, offsets, layers
        self._numbers = {scope: number for number, scope in enumerate(layers, start=1)}
        self._found: dict[str, int | None] = {}

    def read(self) -> list[_Found]:
        moved = {step: self._moved(step) for step in self._worker.steps}
        most = [max((len(m[way]) for m in moved.values()), default=0) for way in (0, 1)]
        return [
            self._read(step, *both)
            for step, both in moved.items()
            if all(most) and [len(way) for way in both] == most
        ]

    def _layer(self, name: str) -> int | None:
        if name not in self._found:
            self._found[name] = self._numbers.get(_find(name, self._layers))
        return self._found[name]

    def _moved(self, step: trace.StepId):
        """(layer, start, end) of the step's pulls and pushes."""
        here = self._worker.steps[step]
        pulls = [
            (self._numbers[scope], t.requested_s, t.arrived_s)
            for source, t in here.transfers.items()
            if (scope := scope_of(source)) in self._numbers
        ]
        pushes = [
            (layer, here.sent_s[source], t.arrived_s - self._offsets[task].offset_s)
            for task, host in self._ps.items()
            if step in host.steps
            for source, t in host.steps[step].transfers.items()
            if _BACKWARD.search(source) and source in here.sent_s and (layer := self._layer(source))
        ]
        return pulls, pushes

    def _read(self, step: trace.StepId, pulls, pushes) -> _Found:
        begin_s = min(start_s for _, start_s, _ in pulls)
        count = len(self._layers)
        arrived_s = measured_steps.arrived_s(_moves(pulls), count)
        times = self._times(self._worker.steps[step].operations, arrived_s)
        measured = measured_steps.MeasuredStep(
            step, begin_s, _moves(pulls), _moves(pushes), [], [], None, times, ()
        )
        return _Found(measured, transfers.shares_s(pulls, count), transfers.shares_s(pushes, count))

    def _times(self, operations: Sequence[trace.Operation], arrived_s) -> compute.LayerTimes:
        count, ranked, matched_s, rank = len(self._layers), [], 0.0, None
        for operation in operations:
            layer = self._layer(operation.node)
            if layer is not None:
                matched_s += operation.end_s - operation.start_s
                backward = _BACKWARD.search(operation.node)
                rank = 2 * count - layer if backward else layer - 1
            if rank is not None:
                ranked.append((operation.start_s, operation.end_s, rank))
        pieces = compute.first_come(ranked, compute.ready_s(arrived_s))
        seconds = compute.seconds_of(pieces, 2 * count)
        total_s = sum(o.end_s - o.start_s for o in operations)
        return compute.LayerTimes(
            seconds[:count], seconds[count:][::-1], matched_s, total_s, pieces
        )


def _moves(moved) -> tuple[measured_steps.Move, ...]:
    """What was moved of each layer, in the order in which it was whole; bytes are not known."""
    moves = []
    for layer in sorted({layer for layer, _, _ in moved}):
        starts_s, ends_s = zip(*((s, e) for other, s, e in moved if other == layer), strict=True)
        moves.append(measured_steps.Move(layer, layer, 0, min(starts_s), max(ends_s)))
    return tuple(sorted(moves, key=lambda m: m.end_s))


def _measurement(found: Sequence[_Found], names, offsets) -> measure.Measurement:
    steps = [f.step for f in found]
    overheads_s = [
        float(np.median([min(m.end_s - m.start_s for m in moves(step)) for step in steps]))
        for moves in (lambda step: step.pulls, lambda step: step.pushes)
    ]
    costs = costs_lib.LayerCosts(
        pull_s=np.median([f.pull_s for f in found], axis=0),
        forward_s=np.median([step.times.forward_s for step in steps], axis=0),
        backward_s=np.median([step.times.backward_s for step in steps], axis=0),
        push_s=np.median([f.push_s for f in found], axis=0),
        overhead_s=overheads_s,
        names=names,
    )
    links = [link.Link(overhead_s, _UNKNOWN_RATE) for overhead_s in overheads_s]
    return measure.Measurement(costs, *links, **measure.summary(steps, offsets))
