"""How long a plan's segments took on the link, from the traces of a worker and the PS tasks."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from tf_dynacomm.profiling import trace

_SEGMENT = re.compile(r"(?:.*/)?dynacomm/(pull|push)_(\d+)/(ps\d+)/\w+/pack(?:_\d+)?")
_MAX_DRIFT_S = 1e-3  # Of two clocks, in the course of a trace.


@dataclasses.dataclass(frozen=True)
class StepTransfers:
    """The transfers of one step, in the worker's clock (seconds since the trace's start).

    Attributes:
      requested_s: When the worker asked for the first segment.
      pull_arrived_s: When each pull segment was at the worker, in the order sent.
      push_ready_s: When each push segment began to be packed.
      push_arrived_s: When each push segment was at the PS.
      empty_push_s: Seconds that each tensor of a few bytes took to the PS before the first push:
        tokens, statistics, counters.
      empty_pull_s: Seconds that each tensor outside segments took from a PS to the worker.
    """

    requested_s: float
    pull_arrived_s: np.ndarray
    push_ready_s: np.ndarray
    push_arrived_s: np.ndarray
    empty_push_s: np.ndarray
    empty_pull_s: np.ndarray

    @property
    def pull_s(self) -> np.ndarray:
        """Seconds that each pull segment took: from the arrival of the one before it."""
        return np.diff(self.pull_arrived_s, prepend=self.requested_s)

    def empty_round_trip_s(self) -> float | None:
        """Seconds that a token takes to a PS, and an empty pull back; `None` if there were none.

        The quickest of each: others shared the link with a segment.
        """
        if not len(self.empty_push_s) or not len(self.empty_pull_s):
            return None
        return float(self.empty_push_s.min() + self.empty_pull_s.min())

    def push_samples(self, size_bytes: Sequence[int]) -> list[tuple[float, float]]:
        """(bytes, seconds) of this step's pushes, for a fit of the link.

        Pushes have no tokens: those that are ready together share the link, so that only all of
        them together tell its rate. Each such group counts as one push of their mean.

        Args:
          size_bytes: Bytes of each push segment, in the order sent.
        """
        samples = [(0.0, seconds) for seconds in self.empty_push_s]
        for group in self._pushes_together():
            busy_s = self.push_arrived_s[group].max() - self.push_ready_s[group].min()
            mean_bytes = sum(size_bytes[i] for i in group) / len(group)
            samples.append((mean_bytes, busy_s / len(group)))
        return samples

    def _pushes_together(self) -> list[list[int]]:
        """Pushes in groups between which the link was free."""
        groups: list[list[int]] = []
        busy_until_s = -np.inf
        for index in np.argsort(self.push_ready_s, kind="stable").tolist():
            if self.push_ready_s[index] >= busy_until_s:
                groups.append([])
            groups[-1].append(index)
            busy_until_s = max(busy_until_s, self.push_arrived_s[index])
        return groups


@dataclasses.dataclass(frozen=True)
class ClockOffset:
    """By how much a PS's clock is ahead of the worker's.

    Attributes:
      offset_s: The estimate: 0 where the traces allow it, else the middle of the bounds (or the
        one bound that is known).
      low_s: The least offset at which no tensor arrives before it was sent.
      high_s: The largest.
    """

    offset_s: float
    low_s: float
    high_s: float

    @property
    def error_s(self) -> float:
        """The most by which the estimate can be wrong, as far as the bounds are known.

        Delays from one host to the other, and so the overhead of a push, can be wrong by as much.
        """
        bounds_s = (self.high_s - self.offset_s, self.offset_s - self.low_s)
        return max([0.0, *(bound_s for bound_s in bounds_s if np.isfinite(bound_s))])

    @property
    def set_by_s(self) -> float:
        """By how much one of the clocks was set meanwhile, at least: no one offset explains it."""
        return max(0.0, self.low_s - self.high_s)


def clock_offsets(
    worker: trace.HostTrace, ps: Mapping[str, trace.HostTrace]
) -> dict[str, ClockOffset]:
    """The offset of each PS task's clock.

    Raises:
      trace.TraceError: If one of the clocks was set while the trace was taken.
    """
    offsets = {task: clock_offset(worker.steps, host.steps) for task, host in ps.items()}
    for task, offset in offsets.items():
        if offset.set_by_s > _MAX_DRIFT_S:
            raise trace.TraceError(
                f"The clock of {worker.host} or of {task} was set by {offset.set_by_s:.3g} s or "
                "more while the trace was taken."
            )
    return offsets


def clock_offset(
    worker: Mapping[int, trace.StepTrace], ps: Mapping[int, trace.StepTrace]
) -> ClockOffset:
    """Bounds the offset of two clocks: nothing arrives before it was sent, in either direction."""
    up = [s for i in worker.keys() & ps.keys() for s in _delays(worker[i], ps[i])]
    down = [s for i in worker.keys() & ps.keys() for s in _delays(ps[i], worker[i])]
    high_s, low_s = min(up, default=np.inf), -min(down, default=np.inf)
    if low_s <= 0 <= high_s:
        return ClockOffset(0.0, low_s, high_s)
    finite = [bound for bound in (low_s, high_s) if np.isfinite(bound)]
    return ClockOffset(sum(finite) / len(finite), low_s, high_s)


def _delays(sender: trace.StepTrace, receiver: trace.StepTrace) -> Iterable[float]:
    for source, transfer in receiver.transfers.items():
        if source in sender.sent_s:
            yield transfer.arrived_s - sender.sent_s[source]


def step_transfers(
    step: int,
    worker: trace.HostTrace,
    ps: Mapping[str, trace.HostTrace],
    offsets: Mapping[str, ClockOffset],
    num_pulls: int,
    pushes: Collection[int],
) -> StepTransfers | None:
    """Reads one step's transfers; `None` if the trace does not hold the whole step.

    Args:
      step: The step's id.
      worker: The worker's trace.
      ps: The traces of the PS tasks, by `ps<task>`.
      offsets: Their clocks' offsets from the worker's.
      num_pulls: Number of pull segments in the plan in force.
      pushes: Numbers (1..) of the push segments that carry anything.
    """
    here = worker.steps[step]
    pulls = _by_segment("pull", here.transfers.values())
    there = [(h.steps.get(step, trace.StepTrace()), offsets[t].offset_s) for t, h in ps.items()]
    pushed: dict[int, list[float]] = collections.defaultdict(list)
    for part, offset_s in there:
        for number, transfers in _by_segment("push", part.transfers.values()).items():
            pushed[number] += [t.arrived_s - offset_s for t in transfers]
    ready = _pack_starts(here)
    whole = pulls.keys() == set(range(1, num_pulls + 1))
    if not whole or not pushed.keys() == ready.keys() == set(pushes):
        return None
    return StepTransfers(
        min(t.requested_s for t in pulls[1]),
        _in_order({n: max(t.arrived_s for t in transfers) for n, transfers in pulls.items()}),
        _in_order(ready),
        _in_order({n: max(arrived) for n, arrived in pushed.items()}),
        _empty_pushes(here, there, min(ready.values(), default=np.inf)),
        _empty_pulls(here, there),
    )


def _empty_pushes(
    worker: trace.StepTrace, ps: Iterable[tuple[trace.StepTrace, float]], before_s: float
) -> np.ndarray:
    """Delays of what the worker sent to the PS tasks, outside segments, before `before_s`."""
    return np.array(
        [
            transfer.arrived_s - offset_s - worker.sent_s[source]
            for part, offset_s in ps
            for source, transfer in part.transfers.items()
            if not _SEGMENT.fullmatch(source) and worker.sent_s.get(source, np.inf) <= before_s
        ]
    )


def _empty_pulls(
    worker: trace.StepTrace, ps: Iterable[tuple[trace.StepTrace, float]]
) -> np.ndarray:
    """Delays of what the PS tasks sent to the worker outside segments."""
    return np.array(
        [
            transfer.arrived_s - (part.sent_s[source] - offset_s)
            for source, transfer in worker.transfers.items()
            for part, offset_s in ps
            if not _SEGMENT.fullmatch(source) and source in part.sent_s
        ]
    )


def shares_s(moved: Sequence[tuple[int, float, float]], count: int) -> np.ndarray:
    """Seconds of the link that each layer took: tensors under way at once share it equally.

    Args:
      moved: (layer, start, end) of each tensor.
      count: Number of layers.
    """
    seconds = np.zeros(count)
    edges_s = sorted({t for _, start_s, end_s in moved for t in (start_s, end_s)})
    for now_s, then_s in itertools.pairwise(edges_s):
        under_way = [layer for layer, s, e in moved if s <= now_s and then_s <= e]
        for layer in under_way:
            seconds[layer - 1] += (then_s - now_s) / len(under_way)
    return seconds


def _in_order(by_number: Mapping[int, float]) -> np.ndarray:
    return np.array([by_number[number] for number in sorted(by_number)])


def _by_segment(way: str, transfers: Iterable[trace.Transfer]) -> dict[int, list[trace.Transfer]]:
    segments = collections.defaultdict(list)
    for transfer in transfers:
        match = _SEGMENT.fullmatch(transfer.source)
        if match and match[1] == way:
            segments[int(match[2])].append(transfer)
    return dict(segments)


def _pack_starts(step: trace.StepTrace) -> dict[int, float]:
    """When the last part of each push segment began to be packed.

    The profiler leaves out operations that take next to no time. The packing of a few elements is
    such a one: it begins when they are handed over.
    """
    begun_s = {**step.sent_s, **{o.node: o.start_s for o in step.operations}}
    starts: dict[int, float] = {}
    for node, start_s in begun_s.items():
        match = _SEGMENT.fullmatch(node)
        if match and match[1] == "push":
            number = int(match[2])
            starts[number] = max(starts.get(number, -np.inf), start_s)
    return starts
