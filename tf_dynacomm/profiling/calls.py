"""One call of a function on one host, as the profiler recorded it → the steps that it held.

As a rule a call is one step. With `steps_per_execution`, or a loop in the `tf.function`, it holds
several, and everything in the loop happens as often; the k-th time belongs to the k-th step.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

# A step has each of its segments once, whatever else it does in loops of its own.
_SEGMENT = re.compile(r"(^|/)dynacomm/(pull|push)_\d+/")
_RECV_NAME = re.compile(r"/_\d+$")

# Of the operations of a call with a loop, how many run each time; others are the loop's own.
_REGULAR_SHARE = 0.9

# The profiler's id of the call; with several steps in it, their number and how many they are too.
# The same step has the same id on all hosts, unless one of them has recorded only part of it.
StepId = int | tuple[int, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One run of an operation: node name, start and end (seconds since the trace's start)."""

    node: str
    start_s: float
    end_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """One tensor that a host received.

    Attributes:
      source: The node that made it, on the sending host.
      requested_s: When this host asked for it; seconds since the trace's start.
      arrived_s: When it was there.
    """

    source: str
    requested_s: float
    arrived_s: float


@dataclasses.dataclass
class StepTrace:
    """What one host recorded of one step: its operations, and what it received and sent.

    Attributes:
      operations: In order of start.
      transfers: By the node that made the tensor.
      sent_s: When a node's tensor began to be handed over for sending, by node.
      repeats: Whether it is several steps of one call, which could not be told apart.
    """

    operations: list[Operation] = dataclasses.field(default_factory=list)
    transfers: dict[str, Transfer] = dataclasses.field(default_factory=dict)
    sent_s: dict[str, float] = dataclasses.field(default_factory=dict)
    repeats: bool = False


Times = dict[str, list[float]]


def _no_times() -> Times:
    return collections.defaultdict(list)


@dataclasses.dataclass
class Call:
    """Everything that happened in a call, in any order.

    Attributes:
      operations: Its operations.
      sent_s: When each node's tensor began to be handed over for sending, each time.
      requested_s: When each `_Recv` asked for its tensor, each time.
      arrived_s: When each `_Recv` had it, each time.
    """

    operations: list[Operation] = dataclasses.field(default_factory=list)
    sent_s: Times = dataclasses.field(default_factory=_no_times)
    requested_s: Times = dataclasses.field(default_factory=_no_times)
    arrived_s: Times = dataclasses.field(default_factory=_no_times)

    def steps(self, call: int) -> Iterator[tuple[StepId, StepTrace]]:
        """The steps in the call, which has the id `call`."""
        segments = [times_s for name, times_s in self.arrived_s.items() if _SEGMENT.search(name)]
        if max(map(len, segments or self.arrived_s.values()), default=1) == 1:
            yield call, self._step()
            return
        count = self._count()
        if count is None:
            yield call, self._step(repeats=True)
            return
        until_s = float("-inf")
        for number in range(count):
            step = self._part(number, count)._step(not_before_s=until_s)
            until_s = max((o.end_s for o in step.operations), default=until_s)
            yield (call, number, count), step

    def _count(self) -> int | None:
        """How many steps a call with a loop held; `None` if it was not recorded as a whole.

        It is the number of times that most operations ran. A loop receives its tensors once more,
        only to learn that it has ended.
        """
        runs = collections.Counter(collections.Counter(o.node for o in self.operations).values())
        count = runs.most_common(1)[0][0] if runs else 1
        regular = sum(nodes for times, nodes in runs.items() if not times % count)
        received = {len(times_s) for times_s in self.arrived_s.values()}
        whole = regular >= _REGULAR_SHARE * runs.total() and received <= {1, count, count + 1}
        return count if count > 1 and whole else None

    def _part(self, number: int, count: int) -> Call:
        """What belongs to one of `count` steps; what the loop does not repeat belongs to none."""
        by_node = collections.defaultdict(list)
        for operation in sorted(self.operations, key=lambda o: o.start_s):
            by_node[operation.node].append(operation)
        operations = _shares(by_node, number, count).values()
        return Call(
            [operation for share in operations for operation in share],
            _shares(self.sent_s, number, count),
            _shares(self.requested_s, number, count),
            _shares(self.arrived_s, number, count),
        )

    def _step(self, *, repeats: bool = False, not_before_s: float = float("-inf")) -> StepTrace:
        """One step. A loop asks for the next step's tensors early: that is no wait of the step."""
        step = StepTrace(sorted(self.operations, key=lambda o: o.start_s), repeats=repeats)
        step.sent_s.update({source: min(times_s) for source, times_s in self.sent_s.items()})
        for receiver, arrived_s in self.arrived_s.items():
            if receiver in self.requested_s:
                requested_s = max(min(self.requested_s[receiver]), not_before_s)
                _add(step.transfers, receiver, requested_s, max(arrived_s))
        return step


def _shares(times: Mapping[str, Sequence], number: int, count: int) -> dict[str, list]:
    """Of what happens as often as the loop runs, or a multiple of it, one run's share."""
    shares = {}
    for name, values in times.items():
        each = len(values) // count
        if len(values) in (each * count, count + 1) and each:
            shares[name] = sorted(values, key=_time_s)[number * each : (number + 1) * each]
    return shares


def _time_s(happening: Operation | float) -> float:
    return happening.start_s if isinstance(happening, Operation) else happening


def _add(
    transfers: dict[str, Transfer], receiver: str, requested_s: float, arrived_s: float
) -> None:
    """Adds what a `_Recv` received; the outputs of one node count as one transfer."""
    source = _RECV_NAME.sub("", receiver)
    before = transfers.get(source)
    if before is not None:
        requested_s = min(requested_s, before.requested_s)
        arrived_s = max(arrived_s, before.arrived_s)
    transfers[source] = Transfer(source, requested_s, arrived_s)


def steps_per_call(steps: Iterable[StepId]) -> int:
    """How many steps the calls held that these steps were found in."""
    return max((step[2] for step in steps if isinstance(step, tuple)), default=1)
