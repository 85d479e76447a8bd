"""Reads a serialized `XSpace`, the profiler's own form of a trace, in bounded memory.

A trace of hundreds of megabytes would take many times that as messages. So its planes and threads
are found by walking the length-delimited fields of the wire format, and only a few thousand events
at a time become messages. The names that events refer to stand behind the events in the file, and
are read first. Fields that this module does not know are passed over.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from google.protobuf import message
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tf_dynacomm import files
from tf_dynacomm.profiling import step_events

_HOST_PLANE = "/host:CPU"
_BEGIN_STAT = "profile_start_time"
_CHUNK_BYTES = 1 << 18
_MAX_NAMES_BYTES = 1 << 28
_MAX_PARTS = 1 << 16  # Planes of a host, and threads of a plane: two bytes can claim to be one.
_FIXED_BYTES = {1: 8, 5: 4}  # Wire types of fixed size.
_LENGTH_DELIMITED = 2
_PLANES = xplane_pb2.XSpace.DESCRIPTOR.fields_by_name["planes"].number
_ERRORS = xplane_pb2.XSpace.DESCRIPTOR.fields_by_name["errors"].number
_LINES = xplane_pb2.XPlane.DESCRIPTOR.fields_by_name["lines"].number
_TIMESTAMP = xplane_pb2.XLine.DESCRIPTOR.fields_by_name["timestamp_ns"].number
_METADATA_ID = xplane_pb2.XEvent.DESCRIPTOR.fields_by_name["metadata_id"].number
_EVENTS = xplane_pb2.XLine.DESCRIPTOR.fields_by_name["events"].number

Buffer = bytes | memoryview  # Or an `mmap`: whatever gives integers by index, and slices.


@dataclasses.dataclass(frozen=True)
class _Line:
    """A thread: where its events lie, and the time from which theirs count (ns)."""

    start: int
    end: int
    timestamp_ns: int


@dataclasses.dataclass(frozen=True)
class _Plane:
    """A plane: its message without its threads, and these."""

    content: xplane_pb2.XPlane
    lines: tuple[_Line, ...]


@dataclasses.dataclass(frozen=True)
class Space:
    """A trace of one host, of which only the outline has been read.

    Attributes:
      buffer: The serialized trace.
      planes: Its planes.
      errors: What the profiler had to say.
    """

    buffer: Buffer
    planes: tuple[_Plane, ...]
    errors: tuple[str, ...]

    @functools.cached_property
    def begin_ns(self) -> int | None:
        """When the host began to record, in ns since the epoch; `None` if it does not tell.

        It stands behind the events: a trace that was cut short between planes has lost it.
        """
        for plane in self.planes:
            for stat in plane.content.stats:
                if plane.content.stat_metadata[stat.metadata_id].name == _BEGIN_STAT:
                    return stat.uint64_value
        return None

    @property
    def _times_begin_ns(self) -> int:
        """From where the times of the host's threads count."""
        return self.begin_ns or 0

    @property
    def first_ns(self) -> int | None:
        """When the host's first thread began, in ns since the epoch; `None` if it has none."""
        lines = [line for plane in self._host_planes() for line in plane.lines]
        return min((self._times_begin_ns + line.timestamp_ns for line in lines), default=None)

    def threads(
        self, origin_ns: int, progress: Callable[[int], None] = lambda size: None
    ) -> Iterator[step_events.Thread]:
        """The events of each thread of the host, in seconds from `origin_ns` (since the epoch).

        Args:
          origin_ns: The moment from which times count.
          progress: Called with the bytes that have been read since the last call.

        Raises:
          ValueError: If the trace is damaged.
        """
        for plane in self._host_planes():
            reader = _EventReader(plane.content, self._times_begin_ns - origin_ns)
            for line in plane.lines:
                with files.malformed("a damaged thread"):
                    thread = reader.thread(self.buffer, line, progress)
                yield thread

    def _host_planes(self) -> Iterator[_Plane]:
        return (plane for plane in self.planes if plane.content.name == _HOST_PLANE)


def outline(buffer: Buffer) -> Space:
    """Finds the planes of a serialized `XSpace`.

    Raises:
      ValueError: If it is none, cut short, or of more parts than a host has.
    """
    planes, errors = [], []
    for number, start, end in _fields(buffer, 0, len(buffer)):
        if number == _PLANES:
            planes.append(_plane(buffer, start, end))
        elif number == _ERRORS:
            errors.append(bytes(buffer[start:end]).decode(errors="replace"))
        _check_count(len(planes) + len(errors))
    return Space(buffer, tuple(planes), tuple(errors))


def _plane(buffer: Buffer, start: int, end: int) -> _Plane:
    lines, rest, begin = [], bytearray(), start
    for number, content, until in _fields(buffer, start, end):
        if number == _LINES:
            lines.append(_Line(content, until, _timestamp_ns(buffer, content, until)))
            _check_count(len(lines))
        else:
            rest += buffer[begin:until]
            if len(rest) > _MAX_NAMES_BYTES:
                raise ValueError(f"more than {_MAX_NAMES_BYTES} bytes of names")
        begin = until
    return _Plane(_parsed(xplane_pb2.XPlane, rest), tuple(lines))


def _check_count(parts: int) -> None:
    if parts > _MAX_PARTS:
        raise ValueError(f"more than {_MAX_PARTS} planes or threads")


def _timestamp_ns(buffer: Buffer, start: int, end: int) -> int:
    """The time of a thread, which stands before its events."""
    for number, content, until in _fields(buffer, start, end):
        if number == _TIMESTAMP:
            return _varint(buffer, content, until)[0]
        if number == _EVENTS:
            break
    return 0


def _parsed(kind, data: bytes | bytearray):
    try:
        return kind.FromString(bytes(data))
    except message.DecodeError as e:
        raise ValueError(str(e)) from e


class _EventReader:
    """Reads the threads of a plane.

    Args:
      plane: The plane's names.
      late_ns: What is added to its times.
    """

    def __init__(self, plane: xplane_pb2.XPlane, late_ns: int):
        names = {key: entry.name for key, entry in plane.event_metadata.items()}
        self._wanted = {key: name for key, name in names.items() if step_events.is_wanted(name)}
        self._stats = {key: entry.name for key, entry in plane.stat_metadata.items()}
        self._late_ns = late_ns

    def thread(self, buffer: Buffer, line: _Line, progress) -> step_events.Thread:
        thread = step_events.Thread()
        line_ps = (self._late_ns + line.timestamp_ns) * 1000
        for chunk in self._chunks(buffer, line, progress):
            self._add(_parsed(xplane_pb2.XLine, chunk).events, line_ps, thread)
        return thread

    def _chunks(self, buffer: Buffer, line: _Line, progress) -> Iterator[bytearray]:
        """The events of a thread whose names are wanted, some at a time, as messages of a thread.

        They are few: most events are the thread pools' own.
        """
        chunk, begin, told = bytearray(), line.start, line.start
        for number, content, until in _fields(buffer, line.start, line.end):
            if number == _EVENTS and _metadata_id(buffer, content, until) in self._wanted:
                chunk += buffer[begin:until]
            begin = until
            if until - told > _CHUNK_BYTES:
                yield chunk
                progress(until - told)
                chunk, told = bytearray(), until
        yield chunk
        progress(line.end - told)

    def _add(self, events, line_ps: int, thread: step_events.Thread) -> None:
        for event in events:
            start_ps = line_ps + event.offset_ps
            end_ps = start_ps + event.duration_ps
            stats = self._values(event.stats) if event.stats else {}
            name = self._wanted[event.metadata_id]
            thread.add(name, start_ps * 1e-12, end_ps * 1e-12, stats)

    def _values(self, stats) -> dict[str, object]:
        values = {}
        for stat in stats:
            field = stat.WhichOneof("value")
            value = getattr(stat, field) if field else None
            name = self._stats.get(stat.metadata_id, "")
            values[name] = self._stats.get(value) if field == "ref_value" else value
        return values


def _metadata_id(buffer: Buffer, start: int, end: int) -> int:
    """The key of an event's name; like all fields of a message, 0 if it is not there."""
    if start < end and buffer[start] == _METADATA_ID << 3:  # Where it stands as a rule.
        return _varint(buffer, start + 1, end)[0]
    for number, content, until in _fields(buffer, start, end):
        if number == _METADATA_ID:
            return _varint(buffer, content, until)[0]
    return 0


def _fields(buffer: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message: number, and where its content begins and ends.

    Raises:
      ValueError: If the message is damaged.
    """
    position = start
    while position < end:
        tag, position = _varint(buffer, position, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _LENGTH_DELIMITED:
            size, position = _varint(buffer, position, end)
            until = position + size
        elif wire_type == 0:
            _, until = _varint(buffer, position, end)
        elif wire_type in _FIXED_BYTES:
            until = position + _FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"a field of wire type {wire_type} at byte {position}")
        if until > end or not number:
            raise ValueError(f"a field that ends behind its message at byte {position}")
        yield number, position, until
        position = until


def _varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    if position < end and (byte := buffer[position]) < 128:  # The most frequent case.
        return byte, position + 1
    value = shift = 0
    while position < end and shift < 64:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ValueError(f"a number that does not end at byte {position}")
