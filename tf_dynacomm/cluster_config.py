"""The cluster that `TF_CONFIG` describes, and waiting until all of it answers."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import errno
import json
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

JOBS = ("chief", "worker", "ps", "evaluator")

_EXAMPLE = (
    '{"cluster": {"chief": ["host0:2222"], "worker": ["host1:2222"], "ps": ["host2:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)
_PROBE_INTERVAL_S = 0.2
_PROBE_TIMEOUT_S = 1.0
_ADDRESS = re.compile(r"[\w.:%[\]-]+:(\d{1,5})", re.ASCII)
_REPORT_INTERVAL_S = 10.0


@dataclasses.dataclass(frozen=True)
class ClusterConfig:
    """A cluster and this process's place in it.

    Attributes:
      cluster: Addresses (`host:port`) by job name.
      job: This process's job: `"chief"`, `"worker"`, `"ps"` or `"evaluator"`.
      task: This process's index in its job.
    """

    cluster: Mapping[str, Sequence[str]]
    job: str
    task: int

    @classmethod
    def from_tf_config(cls, text: str) -> ClusterConfig:
        """Reads the value of the environment variable `TF_CONFIG`.

        A chief or an evaluator needs no address of its own in the cluster.

        >>> config = ClusterConfig.from_tf_config('''
        ...     {"cluster": {"worker": ["a:2222", "b:2222"], "ps": ["c:2222"]},
        ...      "task": {"type": "worker", "index": 1}}''')
        >>> config.job, config.task, config.address
        ('worker', 1, 'b:2222')

        Raises:
          ValueError: `text` is not JSON of the right form.
          ValueError: There is no worker or no ps.
          ValueError: The task is of an unknown type or out of range.
        """
        config = _parse(text)
        cluster = _checked_cluster(config)
        job, task = _checked_task(config, cluster)
        return cls(cluster, job, task)

    @property
    def address(self) -> str | None:
        """This process's address, if the cluster names one."""
        addresses = self.cluster.get(self.job, ())
        return addresses[self.task] if self.task < len(addresses) else None

    @property
    def training_cluster(self) -> dict[str, list[str]]:
        """The cluster without evaluators, which serve nobody: TensorFlow would wait for them."""
        return {job: list(tasks) for job, tasks in self.cluster.items() if job != "evaluator"}


def wait_for_cluster(
    addresses: Sequence[str],
    timeout_s: float,
    *,
    report: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> None:
    """Waits until something listens on each address.

    Args:
      addresses: Addresses (`host:port`) to ask.
      timeout_s: How long to wait, in seconds.
      report: Is given a line that names the silent addresses, every 10 seconds. Prints it to
        standard error by default.

    Raises:
      TimeoutError: Some address is silent after `timeout_s`.
    """
    start_s = time.monotonic()
    next_report_s = start_s + _REPORT_INTERVAL_S
    silent = _silent(addresses)
    while silent:
        now_s = time.monotonic()
        if now_s >= start_s + timeout_s:
            raise TimeoutError(
                f"No answer from {', '.join(silent)} within {timeout_s:g} s: start the worker or "
                "ps there, correct the address, or wait longer."
            )
        if now_s >= next_report_s:
            report(f"Waiting for {', '.join(silent)} ({now_s - start_s:.0f} of {timeout_s:g} s)")
            next_report_s += _REPORT_INTERVAL_S
        time.sleep(_PROBE_INTERVAL_S)
        silent = _silent(silent)


def listens(address: str) -> bool:
    """Returns whether something accepts connections at an address (`host:port`)."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_PROBE_TIMEOUT_S).close()
    except (OSError, UnicodeError):  # The latter if a label of the name is too long.
        return False
    return True


def check_port_is_free(address: str) -> None:
    """Checks that a server of this machine can take the port of `address` (`host:port`).

    TensorFlow shares a taken port instead of failing, and each of the two then gets some of the
    calls.

    Raises:
      OSError: Something else listens on the port.
    """
    port = address.rpartition(":")[2]
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", int(port)))
        except OSError as error:
            remedy = "stop what listens there or choose another port"
            raise OSError(errno.EADDRINUSE, f"Port {port} is taken: {remedy}.") from error


def _silent(addresses: Sequence[str]) -> list[str]:
    with concurrent.futures.ThreadPoolExecutor(max_workers=32) as pool:
        answers = list(pool.map(listens, addresses))
    return [address for address, answer in zip(addresses, answers, strict=True) if not answer]


def _parse(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"`TF_CONFIG` must be JSON ({error}), such as {_EXAMPLE}") from error
    if not isinstance(config, dict):
        raise ValueError(f"`TF_CONFIG` ({text}) must be a JSON object, such as {_EXAMPLE}")
    return config


def _checked_cluster(config: Mapping[str, Any]) -> dict[str, list[str]]:
    cluster = config.get("cluster")
    if not isinstance(cluster, dict):
        raise ValueError(f"`TF_CONFIG` must have an object `cluster`, such as {_EXAMPLE}")
    for job, addresses in cluster.items():
        if job not in JOBS:
            raise ValueError(f"`TF_CONFIG`: job ({job}) must be one of {', '.join(JOBS)}.")
        if not isinstance(addresses, list) or not all(map(_is_address, addresses)):
            raise ValueError(
                f'`TF_CONFIG`: addresses of {job} ({addresses}) must be a list like ["host:2222"].'
            )
    for job in ("worker", "ps"):
        if not cluster.get(job):
            raise ValueError(f"`TF_CONFIG`: `cluster` must have at least one {job}.")
    return cluster


def _is_address(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    match = _ADDRESS.fullmatch(value)
    return match is not None and 0 < int(match[1]) < 65536


def _checked_task(
    config: Mapping[str, Any], cluster: Mapping[str, Sequence[str]]
) -> tuple[str, int]:
    task = config.get("task")
    if not isinstance(task, dict):
        raise ValueError(f"`TF_CONFIG` must have an object `task`, such as {_EXAMPLE}")
    job, index = task.get("type"), task.get("index", 0)
    if job not in JOBS:
        raise ValueError(f"`TF_CONFIG`: task type ({job}) must be one of {', '.join(JOBS)}.")
    count = max(len(cluster.get(job, ())), job in ("chief", "evaluator"))
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
        raise ValueError(
            f"`TF_CONFIG`: task index ({index}) must be from 0 to {count - 1} for {job}."
        )
    return job, index
