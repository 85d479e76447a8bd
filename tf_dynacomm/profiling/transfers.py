"""How long the segments of a plan took on the link, from the traces of a worker and the PS tasks."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from tf_dynacomm.profiling import trace

_SEGMENT = re.compile(r"dynacomm/(pull|push)_(\d+)/(ps\d+)/\w+/pack")


@dataclasses.dataclass(frozen=True)
class StepTransfers:
    """The transfers of one step, in the worker's clock (seconds since the trace's start).

    Attributes:
      requested_s: When the worker asked for the first segment.
      pull_arrived_s: When each pull segment was at the worker, in the order sent.
      push_ready_s: When each push segment began to be packed.
      push_arrived_s: When each push segment was at the PS.
    """

    requested_s: float
    pull_arrived_s: np.ndarray
    push_ready_s: np.ndarray
    push_arrived_s: np.ndarray

    @property
    def pull_s(self) -> np.ndarray:
        """Seconds that each pull segment took: from the arrival of the one before it."""
        return np.diff(self.pull_arrived_s, prepend=self.requested_s)

    @property
    def push_s(self) -> np.ndarray:
        """Seconds that each push segment took from when it was ready and the link was free."""
        free_s = np.concatenate([[-np.inf], self.push_arrived_s[:-1]])
        return self.push_arrived_s - np.maximum(self.push_ready_s, free_s)


@dataclasses.dataclass(frozen=True)
class ClockOffset:
    """By how much a PS's clock is ahead of the worker's.

    Attributes:
      offset_s: The estimate: 0 where the traces allow it, else the middle of the bounds.
      low_s: The least offset at which no tensor arrives before it was sent.
      high_s: The largest.
    """

    offset_s: float
    low_s: float
    high_s: float


def clock_offset(
    worker: Mapping[int, trace.StepTrace], ps: Mapping[int, trace.StepTrace]
) -> ClockOffset:
    """Bounds the offset of two clocks: nothing arrives before it was sent, in either direction."""
    up = [s for i in worker.keys() & ps.keys() for s in _delays(worker[i], ps[i])]
    down = [s for i in worker.keys() & ps.keys() for s in _delays(ps[i], worker[i])]
    high_s, low_s = min(up, default=np.inf), -min(down, default=np.inf)
    if low_s <= 0 <= high_s or not np.isfinite([low_s, high_s]).all():
        return ClockOffset(0.0, low_s, high_s)
    return ClockOffset((low_s + high_s) / 2, low_s, high_s)


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
    pushed: dict[int, list[float]] = collections.defaultdict(list)
    for task, host in ps.items():
        arrived = _by_segment("push", host.steps.get(step, trace.StepTrace()).transfers.values())
        for number, transfers in arrived.items():
            offset_s = offsets[task].offset_s
            pushed[number] += [t.arrived_s - offset_s for t in transfers]
    ready = _pack_starts(here.operations)
    whole = pulls.keys() == set(range(1, num_pulls + 1))
    if not whole or not pushed.keys() == ready.keys() == set(pushes):
        return None
    return StepTransfers(
        min(t.requested_s for t in pulls[1]),
        _in_order({n: max(t.arrived_s for t in transfers) for n, transfers in pulls.items()}),
        _in_order(ready),
        _in_order({n: max(arrived) for n, arrived in pushed.items()}),
    )


def _in_order(by_number: Mapping[int, float]) -> np.ndarray:
    return np.array([by_number[number] for number in sorted(by_number)])


def _by_segment(
    way: str, transfers: Iterable[trace.Transfer]
) -> dict[int, list[trace.Transfer]]:
    segments = collections.defaultdict(list)
    for transfer in transfers:
        match = _SEGMENT.fullmatch(transfer.source)
        if match and match[1] == way:
            segments[int(match[2])].append(transfer)
    return dict(segments)


def _pack_starts(operations: Sequence[trace.Operation]) -> dict[int, float]:
    """When the last part of each push segment began to be packed."""
    starts: dict[int, float] = {}
    for operation in operations:
        match = _SEGMENT.fullmatch(operation.node)
        if match and match[1] == "push":
            number = int(match[2])
            starts[number] = max(starts.get(number, -np.inf), operation.start_s)
    return starts
