"""Profiler traces made by hand."""

from __future__ import annotations

from tensorflow.tsl.profiler.protobuf import xplane_pb2

_US = 1_000_000  # Picoseconds.


def space(*lines, plane: str = "/host:CPU") -> xplane_pb2.XSpace:
    """A trace of threads: (timestamp in ns, [(event, offset in µs, duration in µs, stats), …])."""
    made = xplane_pb2.XSpace()
    added = made.planes.add(name=plane)
    for timestamp_ns, events in lines:
        line = added.lines.add(timestamp_ns=timestamp_ns)
        for name, offset_us, duration_us, stats in events:
            event = line.events.add(
                metadata_id=key_of(added.event_metadata, name),
                offset_ps=offset_us * _US,
                duration_ps=duration_us * _US,
            )
            for key, value in stats.items():
                stat = event.stats.add(metadata_id=key_of(added.stat_metadata, key))
                if isinstance(value, str):
                    stat.ref_value = key_of(added.stat_metadata, value)
                else:
                    stat.int64_value = value
    return made


def key_of(table, name: str) -> int:
    """The key of a name in a table, which is put there if it is new."""
    found = next((i for i, entry in table.items() if entry.name == name), None)
    if found is None:
        found = len(table) + 1
        table[found].id, table[found].name = found, name
    return found


def process(step: int, offset_us: int, duration_us: int):
    """The event in which a step's operations lie."""
    return ("ExecutorState::Process", offset_us, duration_us, {"id": step})


def recv(event: str, step: int, source: str, at_us: int):
    """A request (`Start`) or an arrival (`Done`)."""
    stats = {"name": source, "kernel_type": "_Recv", "step_id": step}
    return (f"ExecutorState::ProcessAsync::{event}", at_us, 0, stats)
