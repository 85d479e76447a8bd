"""A cluster of worker and parameter server processes on this machine."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import IO

from tf_dynacomm import cluster_config
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed import network

_START_ATTEMPTS = 5
_POLL_INTERVAL_S = 0.05
_STDERR_TAIL_BYTES = 4096


class LocalCluster:
    """Worker and parameter server processes that live as long as a `with` block.

    The processes listen on loopback ports that were free, or in the network that `links` builds,
    and end with the block, however it is left. They end too when this process dies without a chance
    to clean up: each reads from a pipe that only this process holds open. What they print is kept
    in unnamed files, so nothing is left behind either.

        with LocalCluster(workers=2, ps=1) as cluster:
            resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec(cluster.cluster_spec), rpc_layer="grpc"
            )
            strategy = tf_dynacomm.DynaCommStrategy(resolver)

    Args:
      workers: How many workers, at least one.
      ps: How many parameter servers, at least one.
      links: The links between them, if loopback is not to be as fast as it is.
      start_timeout_s: How long to wait, in seconds, until all of them listen.
      environment: Variables to add to the environment of the processes.

    Attributes:
      cluster_spec: Addresses (`host:port`) by job name; empty outside the block.
      links: The links.

    Raises:
      ValueError: `workers` or `ps` is less than one.
      RuntimeError: On entering the block: a process ended instead of serving.
      TimeoutError: On entering the block: a process does not listen within `start_timeout_s`.
    """

    def __init__(
        self,
        workers: int = 1,
        ps: int = 1,
        *,
        links: links_lib.Links | None = None,
        start_timeout_s: float = 120.0,
        environment: Mapping[str, str] | None = None,
    ):
        if workers < 1:
            raise ValueError(f"`workers` ({workers}) must be at least 1.")
        if ps < 1:
            raise ValueError(f"`ps` ({ps}) must be at least 1.")
        self._counts = {"worker": workers, "ps": ps}
        self.links = links
        self._network: network.Network | None = None
        self._start_timeout_s = start_timeout_s
        self._environment = {**os.environ, **(environment or {})}
        self._processes: dict[tuple[str, int], subprocess.Popen] = {}
        self._stderr: dict[tuple[str, int], IO[bytes]] = {}
        self.cluster_spec: dict[str, list[str]] = {}

    def __enter__(self) -> LocalCluster:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc_info) -> None:
        self._stop()

    def pid(self, job: str, task: int) -> int:
        """Returns the id of a task's process."""
        return self._processes[job, task].pid

    def stderr(self, job: str, task: int) -> str:
        """Returns the end of what a task has printed to standard error."""
        file = self._stderr[job, task]
        size = os.fstat(file.fileno()).st_size
        tail = os.pread(file.fileno(), _STDERR_TAIL_BYTES, max(0, size - _STDERR_TAIL_BYTES))
        return tail.decode(errors="replace")

    def kill(self, job: str, task: int) -> None:
        """Ends a task's process at once, as a crash would."""
        process = self._processes[job, task]
        process.kill()
        process.wait()
        process.stdin.close()

    def restart(self, job: str, task: int) -> None:
        """Starts a task again at its address, and waits until it listens.

        Raises:
          RuntimeError: The process ended instead of serving.
          TimeoutError: It does not listen within `start_timeout_s`.
        """
        self.kill(job, task)
        self._launch(job, task)
        self._wait_until_listening([(job, task)])

    def _start(self) -> None:
        for attempts_left in reversed(range(_START_ATTEMPTS)):
            self._network = (
                self.links.open(self._counts) if self.links else network.Network(self._counts)
            )
            self.cluster_spec = self._network.cluster_spec
            tasks = [(job, task) for job, count in self._counts.items() for task in range(count)]
            for job, task in tasks:
                self._launch(job, task)
            try:
                self._wait_until_listening(tasks)
                return
            except _PortTakenError:
                self._stop()
                if not attempts_left:
                    raise

    def _launch(self, job: str, task: int) -> None:
        if (job, task) not in self._stderr:
            self._stderr[job, task] = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115
        stderr = self._stderr[job, task]
        tf_config = {
            "cluster": self._network.task_spec(job, task),
            "task": {"type": job, "index": task},
        }
        self._processes[job, task] = subprocess.Popen(
            self._network.server_command(job, task),
            env={**self._environment, "TF_CONFIG": json.dumps(tf_config)},
            stdin=subprocess.PIPE,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C in the terminal is for this process, which cleans up.
        )
        self._network.started(job, task, self.pid(job, task))

    def _wait_until_listening(self, tasks: list[tuple[str, int]]) -> None:
        deadline_s = time.monotonic() + self._start_timeout_s
        for job, task in tasks:
            while not cluster_config.listens(self._network.task_spec(job, task)[job][task]):
                self._check_is_running(job, task)
                if time.monotonic() > deadline_s:
                    raise TimeoutError(
                        f"{job} {task} does not listen after {self._start_timeout_s:g} s. "
                        f"It printed:\n{self.stderr(job, task)}"
                    )
                time.sleep(_POLL_INTERVAL_S)
        for job, task in tasks:
            self._check_is_running(job, task)

    def _check_is_running(self, job: str, task: int) -> None:
        exit_code = self._processes[job, task].poll()
        if exit_code is None:
            return
        message = f"{job} {task} ended with exit code {exit_code}: {self.stderr(job, task)}"
        if exit_code == errno.EADDRINUSE:
            raise _PortTakenError(message)
        raise RuntimeError(message)

    def _stop(self) -> None:
        for job, task in list(self._processes):
            self.kill(job, task)
        self._processes.clear()
        self.cluster_spec = {}
        if self.links is not None:
            self.links.close()
        while self._stderr:
            self._stderr.popitem()[1].close()


class _PortTakenError(RuntimeError):
    """A port was taken between its choice and its use."""
