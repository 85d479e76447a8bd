"""What a trace holds of each whole step: its transfers, its computation, its application."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.profiling import applies, attribution, compute, rows, stock, trace, transfers
from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph

Sample = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Move:
    """Layers that moved together, in the worker's clock.

    Attributes:
      first: The first layer, from 1.
      last: The last layer, inclusive.
      size_bytes: Their bytes.
      start_s: When a pull was asked for or the one before it had arrived; when a push was ready.
      end_s: When it had arrived.
    """

    first: int
    last: int
    size_bytes: int
    start_s: float
    end_s: float


@dataclasses.dataclass(frozen=True)
class MeasuredStep:
    """One step, in the worker's clock (seconds since the trace's start).

    Attributes:
      step: Its id.
      begin_s: When the worker asked for the first parameters.
      pulls: The pull segments, in order; as stock, the layers' variables.
      pushes: The push segments that carry anything, in order; as stock, the layers' gradients.
      down_samples: (bytes, seconds) of transfers to the worker, for a fit of the link.
      up_samples: The same of transfers to the PS tasks.
      round_trip_s: What an empty pull and its token took, if there was anything like it.
      times: The worker's computation.
      applies: The application on each PS task; ranks are those of `applies.pieces`.
      rows_pull_s: Seconds of the link that rows of embeddings took, by layer; 0.0 without any.
      rows_push_s: The same of their gradients.
      rows_end_s: When the last of these had arrived, if there were any.
    """

    step: trace.StepId
    begin_s: float
    pulls: tuple[Move, ...]
    pushes: tuple[Move, ...]
    down_samples: list[Sample]
    up_samples: list[Sample]
    round_trip_s: float | None
    times: compute.LayerTimes
    applies: tuple[tuple[compute.Piece, ...], ...]
    rows_pull_s: np.ndarray | float = 0.0
    rows_push_s: np.ndarray | float = 0.0
    rows_end_s: float = float("-inf")

    @property
    def apply_s(self) -> np.ndarray:
        """Seconds for each layer on the PS task that takes longest for it; shape (L,)."""
        count = len(self.times.forward_s)
        tasks_s = [compute.seconds_of(pieces, count)[::-1] for pieces in self.applies]
        return np.max(tasks_s, axis=0, initial=0.0) if tasks_s else np.zeros(count)

    @property
    def end_s(self) -> float:
        """When the last push had been applied, and the last gradients of rows had arrived."""
        arrived_s = [self.rows_end_s, *(push.end_s for push in self.pushes)]
        return max([*arrived_s, *(pieces[-1].end_s for pieces in self.applies if pieces)])


class StepReader:
    """Finds the whole steps of a worker.

    Args:
      worker: The worker's trace.
      ps: The traces of the PS tasks, by `ps<task>`.
      graph: The graph of the step that ran.
      layers: Its layers.
      plan: The plan in force; `None` for the step as traced.

    Attributes:
      offsets: The PS tasks' clocks against the worker's.

    Raises:
      trace.TraceError: If a clock was set while the trace was taken.
    """

    def __init__(
        self,
        worker: trace.HostTrace,
        ps: Mapping[str, trace.HostTrace],
        graph: step_graph.StepGraph,
        layers: Sequence[layers_lib.Layer],
        plan: plan_lib.Plan | None,
    ):
        self._worker, self._ps, self._layers, self._plan = worker, ps, layers, plan
        self._names = compute.NameTable(graph)
        self._parts = attribution.attribute(graph, layers)
        self._rows = rows.find(graph, self._parts)
        if self._rows.gradients:
            self._parts = attribution.attribute(graph, layers, self._rows.gradients)
        self._applied = applies.layers_applied(graph, layers)
        self._tensors = stock.tensors(graph, layers)
        self.offsets = transfers.clock_offsets(worker, ps)

    def read(self) -> list[MeasuredStep]:
        """The whole steps, in order of time.

        Raises:
          trace.TraceError: If there are none; the message tells why as far as that can be told.
        """
        single = [i for i in self._worker.steps if not self._repeats(i)]
        find = self._as_planned if self._plan else self._as_stock
        found = sorted(find(single), key=lambda step: step.begin_s)
        if not found:
            raise trace.TraceError(self._why_none(len(single)))
        return found

    def _repeats(self, step: trace.StepId) -> bool:
        hosts = (self._worker, *self._ps.values())
        return any(host.steps[step].repeats for host in hosts if step in host.steps)

    def _why_none(self, single: int) -> str:
        host, steps = self._worker.host, self._worker.steps
        if single < len(steps):
            return (
                f"The trace of {host} has several steps in each call, none of them whole: use a "
                "smaller `steps_per_execution`."
            )
        if not any(step.transfers for step in steps.values()):
            return f"The trace of {host} holds no step that received anything from a PS task."
        if not self._ps:
            return f"There is no trace of any PS task beside that of {host}: name the run's folder."
        if not any(steps.keys() & ps.steps.keys() for ps in self._ps.values()):
            return f"The trace of {host} has no step in common with those of the PS tasks."
        force = "under the plan in force" if self._plan else "as stock runs it"
        return f"The trace of {host} holds no whole step of this model {force}."

    def _as_planned(self, steps: Sequence[trace.StepId]) -> Iterator[MeasuredStep]:
        plan = self._plan
        pull_bytes, push_bytes = segment_bytes(self._layers, plan)
        carrying = [number for number, size in enumerate(push_bytes, start=1) if size]
        sent_bytes = [push_bytes[number - 1] for number in carrying]
        for step in steps:
            found = transfers.step_transfers(
                step, self._worker, self._ps, self.offsets, len(plan.pull), carrying
            )
            if found is None:
                continue
            starts_s = [found.requested_s, *found.pull_arrived_s]
            pulls = _moves(plan.pull, pull_bytes, starts_s, found.pull_arrived_s)
            _, pull_s = rows.seconds(self._rows_pulled(step), _spans_s(pulls), len(self._layers))
            sent = [plan.push[number - 1] for number in carrying]
            yield self._step(
                step,
                found.requested_s,
                pulls,
                _moves(sent, sent_bytes, found.push_ready_s, found.push_arrived_s),
                _pull_samples(pull_bytes, pull_s),
                found.push_samples(sent_bytes),
                found.empty_round_trip_s(),
            )

    def _as_stock(self, steps: Sequence[trace.StepId]) -> Iterator[MeasuredStep]:
        moved = {}
        for step in steps:
            here = self._worker.steps[step]
            there = self._there(step)
            pulls = stock.pulls(here, self._tensors.pulls, self._names)
            moved[step] = pulls, stock.pushes(here, there, self._tensors.pushes, self._names)
        most = [max((len(m[way]) for m in moved.values()), default=0) for way in (0, 1)]
        for step, (pulls, pushes) in moved.items():
            if [len(pulls), len(pushes)] == most and all(most):
                yield self._step(
                    step,
                    min(p.start_s for p in pulls),
                    _by_layer(pulls),
                    _by_layer(pushes),
                    stock.samples(pulls),
                    stock.samples(pushes),
                    None,
                )

    def _there(self, step: trace.StepId) -> list[tuple[trace.StepTrace, transfers.ClockOffset]]:
        """The PS tasks' parts of a step."""
        return [(h.steps[step], self.offsets[t]) for t, h in self._ps.items() if step in h.steps]

    def _step(self, step: trace.StepId, begin_s: float, pulls, pushes, *moved) -> MeasuredStep:
        count = len(self._layers)
        operations = self._worker.steps[step].operations
        arrived = arrived_s(pulls, count)
        times = compute.layer_times(operations, self._names, self._parts, count, arrived)
        pulled, pushed = self._rows_pulled(step), self._rows_pushed(step)
        return MeasuredStep(
            step,
            begin_s,
            pulls,
            pushes,
            *moved,
            times,
            tuple(self._applies(step)),
            rows.seconds(pulled, _spans_s(pulls), count)[0],
            rows.seconds(pushed, _spans_s(pushes), count)[0],
            max((end_s for _, _, end_s in pushed), default=float("-inf")),
        )

    def _rows_pulled(self, step: trace.StepId) -> list[tuple[int, float, float]]:
        here, there = self._worker.steps[step], self._there(step)
        return rows.pulled(here, there, self._rows.pulls, self._names)

    def _rows_pushed(self, step: trace.StepId) -> list[tuple[int, float, float]]:
        here, there = self._worker.steps[step], self._there(step)
        return rows.pushed(here, there, self._rows.pushes, self._names)

    def _applies(self, step: trace.StepId) -> Iterator[tuple[compute.Piece, ...]]:
        for task, host in self._ps.items():
            if step in host.steps:
                pieces = applies.pieces(
                    host.steps[step], self._names, self._applied, self._plan, len(self._layers)
                )
                ahead_s = self.offsets[task].offset_s
                yield tuple(
                    compute.Piece(p.start_s - ahead_s, p.end_s - ahead_s, p.rank) for p in pieces
                )


def arrived_s(pulls: Iterable[Move], num_layers: int) -> np.ndarray:
    """When all pulls of each layer had arrived; -inf without any; shape (L,)."""
    arrived = np.full(num_layers, -np.inf)
    for pull in pulls:
        layers = slice(pull.first - 1, pull.last)
        arrived[layers] = np.maximum(arrived[layers], pull.end_s)
    return arrived


def segment_bytes(
    layers: Sequence[layers_lib.Layer], plan: plan_lib.Plan
) -> tuple[list[int], list[int]]:
    """Bytes of each pull segment and of each push segment of a plan."""
    pull = [sum(layer.pull_bytes for layer in layers[a - 1 : b]) for a, b in plan.pull]
    push = [sum(layer.push_bytes for layer in layers[a - 1 : b]) for a, b in plan.push]
    return pull, push


def _moves(segments, sizes_bytes, starts_s, ends_s) -> tuple[Move, ...]:
    return tuple(
        Move(first, last, size, float(start_s), float(end_s))
        for (first, last), size, start_s, end_s in zip(
            segments, sizes_bytes, starts_s, ends_s, strict=False
        )
    )


def _spans_s(moves: Sequence[Move]) -> list[tuple[float, float]]:
    return [(move.start_s, move.end_s) for move in moves]


def _by_layer(sent: Sequence[stock.Sent]) -> tuple[Move, ...]:
    """What was moved of each layer, in the order in which it was whole."""
    moves = []
    for layer in sorted({s.layer for s in sent}):
        own = [s for s in sent if s.layer == layer]
        start_s, end_s = min(s.start_s for s in own), max(s.end_s for s in own)
        moves.append(Move(layer, layer, sum(s.size_bytes for s in own), start_s, end_s))
    return tuple(sorted(moves, key=lambda m: m.end_s))


def _pull_samples(sizes_bytes: Sequence[int], pull_s: np.ndarray) -> list[Sample]:
    """(bytes, seconds) of a step's pulls.

    The first segment of a step also waits for the step to begin on the other side; it counts only
    where the others are of one size.
    """
    skip = 1 if len(set(sizes_bytes[1:])) > 1 else 0
    return list(zip(sizes_bytes, pull_s.tolist(), strict=True))[skip:]
