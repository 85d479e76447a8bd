"""Captures a tf.profiler trace of workers and PS tasks while they run."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import threading
import time
from collections.abc import Mapping, Sequence

from absl import logging

from tf_dynacomm.profiling import profiler_service, trace

_TIMEOUT_S = 20.0
# A host's profiler serves one session at a time.
_one_at_a_time = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Tasks:
    """The tasks to capture: `host:port` of each worker and of each PS."""

    workers: Sequence[str]
    ps: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Capture:
    """The traces of one moment: of each worker, by index, and of each PS task, by `ps<task>`."""

    workers: Mapping[int, trace.HostTrace]
    ps: Mapping[str, trace.HostTrace]


def capture(
    tasks: Tasks,
    duration_s: float,
    logdir: pathlib.Path | None = None,
    captured: threading.Event | None = None,
) -> Capture:
    """Records all tasks at once for `duration_s` seconds; blocks until all has been read.

    A worker that does not answer is left out.

    Args:
      tasks: The tasks.
      duration_s: Seconds to record.
      logdir: Where the trace is also kept, as TensorBoard's profile plugin and XProf read it:
        `<logdir>/plugins/profile/<run>/<host>_<port>.xplane.pb`.
      captured: Set when recording has ended and reading begins.

    Raises:
      trace.TraceError: If a PS task or every worker gives no trace.
    """
    addresses = (*tasks.workers, *tasks.ps)
    with _one_at_a_time:
        results = profiler_service.profile(addresses, duration_s, _TIMEOUT_S)
    if captured is not None:
        captured.set()
    spaces = {a: r for a, r in results.items() if isinstance(r, profiler_service.XSpace)}
    missing = {a: r for a, r in results.items() if a not in spaces}
    if any(a in missing for a in tasks.ps) or all(a in missing for a in tasks.workers):
        address, error = next(iter(missing.items()))
        raise trace.TraceError(f"The profiler of {address} gave no trace ({error}).")
    if logdir is not None:
        _save(spaces, logdir)
    hosts = {h.host: h for h in trace.from_spaces(spaces)}
    return Capture(
        {i: hosts[a] for i, a in enumerate(tasks.workers) if a in hosts},
        {f"ps{i}": hosts[a] for i, a in enumerate(tasks.ps)},
    )


def _save(spaces: Mapping[str, profiler_service.XSpace], logdir: pathlib.Path) -> None:
    folder = logdir / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for address, space in spaces.items():
            file = folder / f"{address.replace(':', '_')}{trace.SUFFIX}"
            part = file.with_suffix(".part")
            part.write_bytes(space.SerializeToString())
            os.replace(part, file)
    except OSError as e:
        logging.warning("The trace cannot be written to %s: %s.", folder, e.strerror)
