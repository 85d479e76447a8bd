"""Reads traces in Chrome-trace form, as the profiler's viewers write them, in bounded memory.

    {"stackFrames": {"7": {"name": "dense/MatMul:MatMul"}, …},
     "traceEvents": [
       {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "host_2222 /host:CPU"}},
       {"ph": "X", "pid": 1, "tid": 5, "ts": 12.5, "dur": 3.0, "name": "MatMul", "sf": 7}, …]}

Times are in microseconds. An event's full name is in the stack frame that it refers to, or in its
argument `long_name`, or it is its name. The file is decoded one event at a time.
"""

from __future__ import annotations

import collections
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import TextIO

from tf_dynacomm import files
from tf_dynacomm.profiling import step_events

_HOST_PLANE = "/host:CPU"
_SECONDS = 1e-6
_CHUNK_CHARACTERS = 1 << 20
# A packed file can hold a thousand times its size; viewers write a million events at most.
_MAX_VALUE_CHARACTERS = 1 << 26
_MAX_EVENTS = 1 << 22
_SPACE = re.compile(r"\s*")


def hosts(text: TextIO) -> dict[str, list[step_events.Thread]]:
    """The threads of every host in a trace; the host's name is empty if the trace has none.

    Raises:
      ValueError: If the text is no such trace, cut short, or too long to be held.
    """
    reader = _Reader()
    with files.malformed("no trace events"):
        for key, value in _entries(_Stream(text)):
            if key == "stackFrames":
                reader.frames = {int(k): str(f.get("name", "")) for k, f in value.items()}
            elif key == "traceEvents":
                reader.add(value)
        return reader.hosts()


class _Reader:
    """Gathers events by thread; `frames` may become known before or after them."""

    def __init__(self):
        self.frames: dict[int, str] = {}
        self._waiting: list[dict] = []
        self._processes: dict[object, str] = {}
        self._threads: dict[tuple, step_events.Thread] = collections.defaultdict(step_events.Thread)
        self._count = 0

    def add(self, event: dict) -> None:
        self._count += 1
        if self._count > _MAX_EVENTS:
            raise ValueError(f"more than {_MAX_EVENTS} events: record for a shorter time")
        if event.get("ph") == "M" and event.get("name") == "process_name":
            self._processes[event.get("pid")] = str(event.get("args", {}).get("name", ""))
        elif event.get("ph") == "X":
            if "sf" in event and not self.frames:
                self._waiting.append(event)
            else:
                self._place(event)

    def _place(self, event: dict) -> None:
        stats = event.get("args", {})
        name = self.frames.get(event.get("sf")) or stats.get("long_name") or event["name"]
        if step_events.is_wanted(name):
            start_s = float(event["ts"]) * _SECONDS
            end_s = start_s + float(event.get("dur", 0)) * _SECONDS
            if not math.isfinite(end_s):
                raise ValueError(f"an event whose time is no number: {name}")
            thread = self._threads[event.get("pid"), event.get("tid")]
            thread.add(name, start_s, end_s, stats)

    def hosts(self) -> dict[str, list[step_events.Thread]]:
        for event in self._waiting:
            self._place(event)
        found = collections.defaultdict(list)
        for (pid, _), thread in self._threads.items():
            host, _, plane = self._processes.get(pid, _HOST_PLANE).rpartition("/host:")
            if f"/host:{plane}" == _HOST_PLANE:
                found[host.strip()].append(thread)
        return dict(found)


def _entries(stream: _Stream) -> Iterator[tuple[str, object]]:
    """The entries of the file; those of its list of events one by one."""
    if stream.peek() == "[":  # The form that has nothing but events.
        yield from (("traceEvents", event) for event in _items(stream))
        return
    for key in _members(stream):
        if key == "traceEvents":
            yield from ((key, event) for event in _items(stream))
        else:
            yield key, stream.value()


def _members(stream: _Stream) -> Iterator[str]:
    """The keys of an object; the value of each is to be read before the next."""
    stream.expect("{")
    while not stream.ends("}"):
        key = stream.value()
        stream.expect(":")
        yield key


def _items(stream: _Stream) -> Iterator[dict]:
    stream.expect("[")
    while not stream.ends("]"):
        item = stream.value()
        if not isinstance(item, dict):
            raise ValueError(f"an event that is no object: {item!r}")
        yield item


class _Stream:
    """Decodes JSON values one after the other, holding little more than one in memory."""

    def __init__(self, text: TextIO):
        self._text = text
        self._held = ""
        self._position = 0
        self._whole = False
        self._decode: Callable = json.JSONDecoder().raw_decode

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            self._position = _SPACE.match(self._held, self._position).end()
            if self._position < len(self._held):
                return self._held[self._position]
            if self._whole:
                return ""
            self._read()

    def expect(self, character: str) -> None:
        """Passes over a character.

        Raises:
          ValueError: If another one comes.
        """
        found = self.peek()
        if found != character:
            raise ValueError(f"{character} expected, not {found or 'the end'}")
        self._position += 1

    def ends(self, bracket: str) -> bool:
        """Passes over a comma, or over the bracket that ends the object or list."""
        if self.peek() == ",":
            self._position += 1
        ended = self.peek() == bracket
        self._position += ended
        return ended

    def value(self):
        """The next value.

        Raises:
          ValueError: If there is none, or if it is too long.
        """
        self.peek()
        while True:
            try:
                value, end = self._decode(self._held, self._position)
                if end < len(self._held) or self._whole:
                    self._position = end
                    return value
            except ValueError:
                if self._whole:
                    raise
            self._read()

    def _read(self) -> None:
        """Holds more text: as much again as it holds, so that long values cost linear time."""
        self._held = self._held[self._position :]
        self._position = 0
        if len(self._held) > _MAX_VALUE_CHARACTERS:
            raise ValueError(f"a value of more than {_MAX_VALUE_CHARACTERS} characters")
        more = self._text.read(max(_CHUNK_CHARACTERS, len(self._held)))
        self._whole = not more
        self._held += more
