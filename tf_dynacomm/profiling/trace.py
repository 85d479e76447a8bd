"""Reads tf.profiler traces (`*.xplane.pb`): when every operation ran and every transfer arrived.

A trace has one file for each host, in TensorBoard's layout `plugins/profile/<run>/`. TensorFlow
records an event `<node>:<type>` for every operation, inside an `ExecutorState::Process` event of
the step's id, and `ExecutorState::ProcessAsync::Start` and `…::Done` for every `_Recv`: its request
and its arrival. One step has the same id on the worker and on the PS. Each host's file counts its
times from its own begin, which it tells. Times are turned into seconds since the start of the trace
here, at the edge; nothing else knows of nano- or picoseconds.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping

from tf_dynacomm.profiling import profiler_service

SUFFIX = ".xplane.pb"
_HOST_PLANE = "/host:CPU"
_PROCESS = "ExecutorState::Process"
_BEGIN_STAT = "profile_start_time"
_RECV_NAME = re.compile(r"/_\d+$")


class TraceError(Exception):
    """A trace cannot be read, or does not hold what is asked of it."""


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
    """

    operations: list[Operation] = dataclasses.field(default_factory=list)
    transfers: dict[str, Transfer] = dataclasses.field(default_factory=dict)
    sent_s: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class HostTrace:
    """What one host recorded: its name (from the file's) and its steps by id."""

    host: str
    steps: dict[int, StepTrace]


def run_files(path: str | os.PathLike) -> list[pathlib.Path]:
    """The files of a trace: of a file itself, a run's folder, or the latest run under a logdir.

    Raises:
      TraceError: If there are none.
    """
    path = pathlib.Path(path)
    if path.is_file():
        return [path]
    for folder in (path, *_runs(path / "plugins" / "profile"), *_runs(path)):
        files = sorted(folder.glob(f"*{SUFFIX}"))
        if files:
            return files
    raise TraceError(f"{path}: no {SUFFIX} file here, nor under plugins/profile.")


def _runs(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted((p for p in folder.glob("*") if p.is_dir()), reverse=True)


def read(files: Iterable[str | os.PathLike]) -> list[HostTrace]:
    """Reads the files of one trace; all hosts' times start at the same moment.

    Raises:
      TraceError: If a file cannot be read or is not a trace.
    """
    paths = [pathlib.Path(f) for f in files]
    return from_spaces({path.name.removesuffix(SUFFIX): _parse(path) for path in paths})


def from_spaces(spaces: Mapping[str, profiler_service.XSpace]) -> list[HostTrace]:
    """Reads the hosts' parts of one trace; all hosts' times start at the same moment."""
    planes = {host: plane for host, space in spaces.items() if (plane := _host_plane(space))}
    begun_ns = {host: _begin_ns(space) for host, space in spaces.items()}
    firsts_ns = (begun_ns[h] + line.timestamp_ns for h, p in planes.items() for line in p.lines)
    first_ns = min(firsts_ns, default=0)
    return [
        HostTrace(h, _steps(planes[h], first_ns - begun_ns[h]) if h in planes else {})
        for h in spaces
    ]


def _begin_ns(space) -> int:
    """When a host began to record; the times in its file count from there."""
    for plane in space.planes:
        names = _names(plane.stat_metadata)
        for stat in plane.stats:
            if names.get(stat.metadata_id) == _BEGIN_STAT:
                return stat.uint64_value
    return 0


def _parse(path: pathlib.Path) -> profiler_service.XSpace:
    try:
        space = profiler_service.parse(path.read_bytes())
    except OSError as e:
        raise TraceError(f"{path}: {e.strerror or e}.") from e
    except ValueError as e:
        raise TraceError(f"{path}: not a profiler trace, or a truncated one.") from e
    if not space.planes:
        raise TraceError(f"{path}: not a profiler trace, or an empty one.")
    return space


def _host_plane(space):
    return next((p for p in space.planes if p.name == _HOST_PLANE and p.lines), None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Event:
    name: str
    start_s: float
    end_s: float
    stats: dict[str, object]


def _names(metadata) -> dict[int, str]:
    return {key: entry.name for key, entry in metadata.items()}


def _events(line, origin_ns: int, names: dict[int, str], stats: dict[int, str]) -> Iterator[_Event]:
    line_ps = (line.timestamp_ns - origin_ns) * 1000
    for event in line.events:
        name = names.get(event.metadata_id, "")
        if not name.startswith("ThreadpoolListener"):
            start_ps = line_ps + event.offset_ps
            values = {stats.get(s.metadata_id): _value(s, stats) for s in event.stats}
            yield _Event(name, start_ps * 1e-12, (start_ps + event.duration_ps) * 1e-12, values)


def _value(stat, names: dict[int, str]):
    field = stat.WhichOneof("value")
    value = getattr(stat, field) if field else None
    return names.get(value) if field == "ref_value" else value


def _steps(plane, origin_ns: int) -> dict[int, StepTrace]:
    steps: dict[int, StepTrace] = collections.defaultdict(StepTrace)
    requests: dict[tuple[int, str], float] = {}
    arrivals: dict[tuple[int, str], float] = {}
    names, stats = _names(plane.event_metadata), _names(plane.stat_metadata)
    for line in plane.lines:
        events = list(_events(line, origin_ns, names, stats))
        _collect_operations(events, steps)
        for event in events:
            if event.stats.get("kernel_type") == "_Recv":
                key = (event.stats.get("step_id"), _RECV_NAME.sub("", event.stats.get("name", "")))
                found = requests if event.name.endswith("Start") else arrivals
                found[key] = event.start_s
    for (step, source), arrived_s in arrivals.items():
        if (step, source) in requests:
            transfer = Transfer(source, requests[step, source], arrived_s)
            steps[step].transfers[source] = transfer
    for step in steps.values():
        step.operations.sort(key=lambda o: o.start_s)
    return dict(steps)


def _collect_operations(events: list[_Event], steps: dict[int, StepTrace]) -> None:
    """Adds a thread's operations to the steps in whose `Process` events they lie."""
    process = sorted(
        (e.start_s, e.end_s, e.stats["id"])
        for e in events
        if e.name == _PROCESS and "id" in e.stats
    )
    starts = [start for start, _, _ in process]
    for event in events:
        node, colon, kind = event.name.rpartition(":")
        if not colon or node.endswith(":") or not kind:
            continue
        index = bisect.bisect_right(starts, event.start_s) - 1
        if index < 0 or event.end_s > process[index][1]:
            continue
        step = steps[process[index][2]]
        if kind == "_Send":
            step.sent_s[str(event.stats.get("from", ""))] = event.start_s
        else:
            step.operations.append(Operation(node, event.start_s, event.end_s))
