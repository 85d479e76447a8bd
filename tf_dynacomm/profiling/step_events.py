"""Events of a host's threads → steps: which operations, requests, arrivals and sends each has.

TensorFlow records an event `<node>:<type>` for every operation, inside an `ExecutorState::Process`
event of the step's id, and `ExecutorState::ProcessAsync::Start` and `…::Done` for every `_Recv`:
its request and its arrival. One step has the same id on the worker and on the PS.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import re
import sys
from collections.abc import Iterable, Mapping

from tf_dynacomm.profiling import calls as calls_lib
from tf_dynacomm.profiling.calls import Operation, StepId, StepTrace

_PROCESS = "ExecutorState::Process"
_ASYNC = "ExecutorState::ProcessAsync::"
_REQUEST, _ARRIVAL = f"{_ASYNC}Start", f"{_ASYNC}Done"
_OPERATION = re.compile(r"(?!.*::[^:]*$)(.+):([^:\s]+)")
_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")


def is_wanted(name: str) -> bool:
    """Whether events of this name tell anything of a step."""
    return name in (_PROCESS, _REQUEST, _ARRIVAL) or _OPERATION.fullmatch(name) is not None


class Thread:
    """The events of one thread, of which it keeps what tells of steps."""

    def __init__(self):
        self.processes: list[tuple[float, float, int]] = []
        self.operations: list[Operation] = []
        self.sends: list[tuple[float, float, str]] = []
        self.requests: list[tuple[int, str, float]] = []
        self.arrivals: list[tuple[int, str, float]] = []
        self.task: str | None = None

    def add(self, name: str, start_s: float, end_s: float, stats: Mapping[str, object]) -> None:
        """Adds an event whose name `is_wanted`."""
        if name == _PROCESS:
            if "id" in stats:
                self.processes.append((start_s, end_s, int(stats["id"])))
        elif name in (_REQUEST, _ARRIVAL):
            if stats.get("kernel_type") == "_Recv":
                kept = self.requests if name == _REQUEST else self.arrivals
                kept.append((int(stats["step_id"]), str(stats.get("name", "")), start_s))
        else:
            self._add_operation(name, start_s, end_s, stats)

    def _add_operation(self, name, start_s, end_s, stats) -> None:
        node, _, kind = name.rpartition(":")
        if kind != "_Send":
            self.operations.append(Operation(sys.intern(node), start_s, end_s))
            return
        self.sends.append((start_s, end_s, str(stats.get("from", ""))))
        if self.task is None:
            match = _TASK.match(str(stats.get("key", "")))
            self.task = match and f"{match[1]}:{match[2]}"


@dataclasses.dataclass(frozen=True)
class HostSteps:
    """The steps of a host by their ids, and its task (`worker:0`) where the trace tells it."""

    steps: dict[StepId, StepTrace]
    task: str | None


def collect(threads: Iterable[Thread], every: int = 1) -> HostSteps:
    """Sorts the events of a host's threads by step.

    Args:
      threads: The threads.
      every: Keep one step of so many, by its id, so that all hosts keep the same.
    """
    calls: dict[int, calls_lib.Call] = collections.defaultdict(calls_lib.Call)
    task = None
    for thread in threads:
        _place(thread, calls, every)
        for step, receiver, at_s in thread.requests:
            if step % every == 0:
                calls[step].requested_s[receiver].append(at_s)
        for step, receiver, at_s in thread.arrivals:
            if step % every == 0:
                calls[step].arrived_s[receiver].append(at_s)
        task = task or thread.task
    steps = {}
    for step, call in calls.items():
        steps.update(call.steps(step))
    return HostSteps(steps, task)


def _place(thread: Thread, calls: dict[int, calls_lib.Call], every: int) -> None:
    """Adds a thread's operations and sends to the calls in whose `Process` events they lie."""
    processes = sorted(thread.processes)
    starts_s = [start_s for start_s, _, _ in processes]

    def call_at(start_s: float, end_s: float) -> calls_lib.Call | None:
        index = bisect.bisect_right(starts_s, start_s) - 1
        if index < 0 or end_s > processes[index][1] or processes[index][2] % every:
            return None
        return calls[processes[index][2]]

    for operation in thread.operations:
        call = call_at(operation.start_s, operation.end_s)
        if call is not None:
            call.operations.append(operation)
    for start_s, end_s, source in thread.sends:
        call = call_at(start_s, end_s)
        if call is not None:
            call.sent_s[source].append(start_s)
