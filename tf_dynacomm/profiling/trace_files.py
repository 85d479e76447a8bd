"""Where a trace's files are: TensorBoard's layout has one run's in `plugins/profile/<run>/`."""

from __future__ import annotations

import os
import pathlib

XPLANE = ".xplane.pb"
PACKED_XPLANE = ".xplane.pb.gz"
CHROME = (".trace.json.gz", ".trace.json", ".json.gz", ".json")
_SUFFIXES = (XPLANE, PACKED_XPLANE, *CHROME)


class TraceError(Exception):
    """A trace cannot be read, or does not hold what is asked of it."""


def run_files(path: str | os.PathLike) -> list[pathlib.Path]:
    """The files of a trace: of a file itself, a run's folder, or the latest run under a logdir.

    A run that holds the profiler's own files and its viewer's is read from the former. Of files
    that a host has both packed and not, the profiler's plain one and the viewer's packed one count.

    Raises:
      TraceError: If there are none.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise TraceError(f"{path}: does not exist; name a trace, a run's folder or a logdir.")
    if path.is_file() or (path.name.endswith(_SUFFIXES) and not path.is_dir()):
        return [_regular(path)]
    for folder in (path, *_runs(path / "plugins" / "profile"), *_runs(path)):
        for suffixes in ((PACKED_XPLANE, XPLANE), CHROME[1::-1]):
            of_hosts = {host_of(f): f for suffix in suffixes for f in folder.glob(f"*{suffix}")}
            if of_hosts:
                return [_regular(of_hosts[host]) for host in sorted(of_hosts)]
    raise TraceError(f"{path}: no trace ({XPLANE} or {CHROME[0]}) here, nor under plugins/profile.")


def host_of(path: pathlib.Path) -> str:
    """The host that a file was recorded on, from the file's name."""
    for suffix in _SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.name


def _regular(path: pathlib.Path) -> pathlib.Path:
    """The path, if opening it cannot wait for ever, as that of a pipe does."""
    if path.exists() and not path.is_file():
        raise TraceError(f"{path}: not a file.")
    return path


def _runs(folder: pathlib.Path) -> list[pathlib.Path]:
    """The folders in a folder, the latest first: runs are named after their time."""
    return sorted((p for p in folder.glob("*") if p.is_dir()), reverse=True)
