"""A recorded run: the traces of its workers and PS tasks, and what they were doing."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from tf_dynacomm.profiling import step_record, trace, trace_files


@dataclasses.dataclass(frozen=True)
class Run:
    """The traces of one run.

    Attributes:
      files: The files that they were read from.
      hosts: All hosts.
      workers: Those of the workers, by index.
      ps: Those of the PS tasks, by `ps<task>`.
      record: The step that was traced, if it was saved beside them.
    """

    files: Sequence[pathlib.Path]
    hosts: Sequence[trace.HostTrace]
    workers: Mapping[int, trace.HostTrace]
    ps: Mapping[str, trace.HostTrace]
    record: step_record.StepRecord | None


def load(path: str | os.PathLike, progress: trace.Progress = lambda size: None) -> Run:
    """Reads a run: from one of its files, its folder, or the logdir whose latest run it is.

    Which task a host is, its trace tells by the tensors that it sent.

    Raises:
      trace.TraceError: If there is none, or one of its files cannot be read; it names the file.
      trace.TraceError: If two files are of the same task.
    """
    files = trace_files.run_files(path)
    hosts = trace.read(files, progress)
    by_task: dict[str, trace.HostTrace] = {}
    for host in hosts:
        other = by_task.setdefault(host.task or host.host, host)
        if other is not host:
            raise trace.TraceError(
                f"{files[0].parent}: {other.host} and {host.host} are both the trace of "
                f"{host.task}; they are of different runs."
            )
    folder = files[0].parent
    try:
        record = step_record.load(folder)
    except (OSError, ValueError) as e:
        raise trace.TraceError(str(e)) from e
    return Run(files, hosts, _workers(by_task), _ps(by_task), record)


def _workers(by_task: Mapping[str, trace.HostTrace]) -> dict[int, trace.HostTrace]:
    found = {int(t.partition(":")[2]): h for t, h in by_task.items() if t.startswith("worker:")}
    return dict(sorted(found.items()))


def _ps(by_task: Mapping[str, trace.HostTrace]) -> dict[str, trace.HostTrace]:
    return {t.replace(":", ""): h for t, h in sorted(by_task.items()) if t.startswith("ps:")}
