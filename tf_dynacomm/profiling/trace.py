"""Reads tf.profiler traces: when every operation ran and every transfer arrived.

A trace has one file for each host, in TensorBoard's layout `plugins/profile/<run>/`: the profiler's
own form (`*.xplane.pb`, see `xspace`), or Chrome-trace form as its viewers write it (`*.json.gz`,
see `chrome_trace`). Each host's file counts its times from its own begin, which the profiler's own
form tells. Times are turned into seconds since the start of the trace here, at the edge; nothing
else knows of nano- or picoseconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import mmap
import os
import pathlib
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO

from tf_dynacomm.profiling import chrome_trace, step_events, trace_files, xspace
from tf_dynacomm.profiling.calls import Operation, StepId, StepTrace, Transfer
from tf_dynacomm.profiling.trace_files import TraceError

__all__ = [
    "HostTrace",
    "Operation",
    "StepId",
    "StepTrace",
    "TraceError",
    "Transfer",
    "from_spaces",
    "read",
]

Progress = Callable[[int], None]
_KEPT_BYTES = 64_000_000
_MAX_UNPACKED_BYTES = 1 << 31  # A packed file can hold a thousand times its size.
_UNPACKED_AT_ONCE_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True)
class HostTrace:
    """What one host recorded.

    Attributes:
      host: Its name, from the file's.
      steps: Its steps by id.
      task: Its task, such as `worker:0`; `None` where the trace does not tell.
    """

    host: str
    steps: dict[StepId, StepTrace]
    task: str | None = None


def read(
    files: Iterable[str | os.PathLike], progress: Progress = lambda size: None
) -> list[HostTrace]:
    """Reads the files of one trace; all hosts' times start at the same moment.

    Memory is bounded: of files of more than 64 MB together, only some of the steps are kept, each
    n-th by its id, the same on all hosts; costs are medians over steps, of which there are plenty.

    Args:
      files: The files.
      progress: Called with the bytes that have been read since the last call.

    Raises:
      TraceError: If a file cannot be read or is not a trace; it names the file.
    """
    paths = [pathlib.Path(f) for f in files]
    hosts: list[HostTrace] = []
    with contextlib.ExitStack() as stack:
        buffers, spaces = {}, {}
        for path in paths:
            with _blamed(path):
                buffers[path] = stack.enter_context(_opened(path))
        every = 1 + sum(map(len, buffers.values())) // _KEPT_BYTES
        for path, buffer in buffers.items():
            with _blamed(path):
                if _is_chrome(path, buffer):
                    hosts += _chrome_hosts(path, progress, every)
                else:
                    spaces[path] = _outline(buffer)
        _check_begins(spaces)
        origin_ns = _origin_ns(spaces.values())
        for path, space in spaces.items():
            with _blamed(path):
                found = step_events.collect(space.threads(origin_ns, progress), every)
                hosts.append(HostTrace(trace_files.host_of(path), found.steps, found.task))
    return hosts


def from_spaces(spaces: Mapping[str, bytes]) -> list[HostTrace]:
    """Reads the hosts' parts of one trace, serialized; their times start at the same moment.

    Raises:
      TraceError: If one is damaged or holds what the profiler refused.
    """
    outlines = {}
    for host, data in spaces.items():
        with _blamed(host):
            outlines[host] = xspace.outline(data)
    _check_begins(outlines)
    origin_ns = _origin_ns(outlines.values())
    hosts = []
    for host, space in outlines.items():
        with _blamed(host):
            found = step_events.collect(space.threads(origin_ns))
            hosts.append(HostTrace(host, found.steps, found.task))
    return hosts


def _check_begins(spaces: Mapping[pathlib.Path | str, xspace.Space]) -> None:
    """Checks that all hosts tell when they began to record, or none, as old profilers do."""
    silent = [source for source, space in spaces.items() if space.begin_ns is None]
    if 0 < len(silent) < len(spaces):
        raise TraceError(
            f"{silent[0]}: a truncated trace: it does not tell when it began, as others of it do."
        )


def _origin_ns(spaces: Iterable[xspace.Space]) -> int:
    """The moment at which the first of the hosts' threads began."""
    return min((s.first_ns for s in spaces if s.first_ns is not None), default=0)


@contextlib.contextmanager
def _blamed(source: pathlib.Path | str) -> Iterator[None]:
    """Turns what goes wrong in reading into a `TraceError` that names the file."""
    try:
        yield
    except gzip.BadGzipFile as e:
        raise TraceError(f"{source}: not a profiler trace, or a damaged one ({e}).") from e
    except OSError as e:
        raise TraceError(f"{source}: {e.strerror or e}.") from e
    except (AttributeError, EOFError, KeyError, TypeError, ValueError, zlib.error) as e:
        raise TraceError(f"{source}: not a profiler trace, or a truncated one ({e}).") from e


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[xspace.Buffer]:
    """The bytes of a file, without reading them into memory; a packed trace is unpacked to disk."""
    with path.open("rb") as file, tempfile.TemporaryFile() as unpacked:
        if path.name.endswith(trace_files.PACKED_XPLANE):
            _unpack(gzip.GzipFile(fileobj=file), unpacked)
            file = unpacked
        if not os.fstat(file.fileno()).st_size:
            raise ValueError("it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            yield mapped


def _unpack(packed: gzip.GzipFile, unpacked: IO[bytes]) -> None:
    while data := packed.read(_UNPACKED_AT_ONCE_BYTES):
        unpacked.write(data)
        if unpacked.tell() > _MAX_UNPACKED_BYTES:
            raise ValueError(f"it has more than {_MAX_UNPACKED_BYTES} bytes when unpacked")
    unpacked.flush()


def _is_chrome(path: pathlib.Path, buffer: xspace.Buffer) -> bool:
    return path.name.endswith(trace_files.CHROME) or bytes(buffer[:2]) == _GZIP_MAGIC


def _outline(buffer: xspace.Buffer) -> xspace.Space:
    space = xspace.outline(buffer)
    if not space.planes:
        raise ValueError("it has no planes")
    return space


def _chrome_hosts(path: pathlib.Path, progress: Progress, every: int) -> Iterator[HostTrace]:
    with path.open("rb") as file:
        counted = _Counted(file, progress)
        packed = file.read(2) == _GZIP_MAGIC
        file.seek(0)
        binary = gzip.GzipFile(fileobj=counted) if packed else io.BufferedReader(counted)
        with io.TextIOWrapper(binary, "utf-8") as text:
            hosts = chrome_trace.hosts(text)
    for host, threads in hosts.items():
        found = step_events.collect(threads, every)
        yield HostTrace(host or trace_files.host_of(path), found.steps, found.task)


class _Counted(io.RawIOBase):
    """A file that tells how much of it is read."""

    def __init__(self, file, progress: Progress):
        self._file = file
        self._progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        size = self._file.readinto(buffer)
        self._progress(size)
        return size
