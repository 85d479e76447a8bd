"""Captures a tf.profiler trace of workers and PS tasks while they run."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
import time
from collections.abc import Mapping, Sequence

from absl import logging

from tf_dynacomm import files
from tf_dynacomm.profiling import profiler_service, trace, trace_files

_TIMEOUT_S = 20.0
_RETRY_AFTER_S = 1.0
# A host's profiler serves one session at a time.
_one_at_a_time = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Tasks:
    """The tasks to capture: `host:port` of each worker and of each PS."""

    workers: Sequence[str]
    ps: Sequence[str]

    @property
    def devices(self) -> dict[str, str]:
        """The device of each task, by address."""
        jobs = {"worker": self.workers, "ps": self.ps}
        return {
            address: f"/job:{job}/task:{task}"
            for job, addresses in jobs.items()
            for task, address in enumerate(addresses)
        }


@dataclasses.dataclass(frozen=True)
class Capture:
    """The traces of one moment.

    Attributes:
      workers: Of each worker that answered, by index.
      ps: Of each PS task, by `ps<task>`.
      folder: Where they are kept, if they are.
    """

    workers: Mapping[int, trace.HostTrace]
    ps: Mapping[str, trace.HostTrace]
    folder: pathlib.Path | None = None


def capture(
    tasks: Tasks,
    duration_s: float,
    logdir: pathlib.Path | None = None,
    captured: threading.Event | None = None,
) -> Capture:
    """Records all tasks at once for `duration_s` seconds; blocks until all has been read.

    A worker that does not answer is left out. What cannot be recorded is tried once more, a second
    later; so a session of someone else's, on any of the hosts, is left alone. All in all it takes
    no longer than 21 seconds and twice `duration_s`, and the time to read.

    Args:
      tasks: The tasks.
      duration_s: Seconds to record.
      logdir: Where the trace is also kept, as TensorBoard's profile plugin and XProf read it:
        `<logdir>/plugins/profile/<run>/<host>_<port>.xplane.pb`.
      captured: Set when recording has ended and reading begins.

    Raises:
      trace.TraceError: If a PS task or every worker gives no trace.
    """
    with _one_at_a_time:
        spaces = _record(tasks, duration_s)
    if captured is not None:
        captured.set()
    folder = None if logdir is None else _save(spaces, logdir)
    hosts = {h.host: h for h in trace.from_spaces(spaces)}
    return Capture(
        {i: hosts[a] for i, a in enumerate(tasks.workers) if a in hosts},
        {f"ps{i}": hosts[a] for i, a in enumerate(tasks.ps)},
        folder,
    )


def _record(tasks: Tasks, duration_s: float) -> dict[str, bytes]:
    deadline_s = time.monotonic() + 2 * duration_s + _RETRY_AFTER_S + _TIMEOUT_S
    try:
        return _attempt(tasks, duration_s, deadline_s)
    except trace.TraceError as e:
        logging.info("A trace is tried once more: %s", e)
        time.sleep(_RETRY_AFTER_S)
        return _attempt(tasks, duration_s, deadline_s)


def _attempt(tasks: Tasks, duration_s: float, deadline_s: float) -> dict[str, bytes]:
    """The traces of the tasks that answer, serialized.

    Raises:
      trace.TraceError: If a PS task or every worker gives none.
    """
    left_s = max(deadline_s - time.monotonic() - duration_s, 0.0)
    results = profiler_service.profile(tasks.devices, duration_s, left_s)
    errors = {a: r for a, r in results.items() if isinstance(r, profiler_service.ServiceError)}
    for address, error in errors.items():
        if error.busy:
            raise trace.TraceError(f"A profiler session of someone else runs on {address}.")
    if any(a in errors for a in tasks.ps) or all(a in errors for a in tasks.workers):
        address, error = next(iter(errors.items()))
        raise trace.TraceError(f"The profiler of {address} gave no trace ({error}).")
    return {a: r for a, r in results.items() if a not in errors}


def _save(spaces: Mapping[str, bytes], logdir: pathlib.Path) -> pathlib.Path | None:
    """Writes a run; returns its folder, or `None` if it cannot be written."""
    folder = logdir / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for address, space in spaces.items():
            file = folder / f"{address.replace(':', '_')}{trace_files.XPLANE}"
            with files.whole(file) as part:
                part.write_bytes(space)
    except OSError as e:
        logging.warning("The trace cannot be written to %s: %s.", folder, e.strerror)
        return None
    return folder
