"""What connects the tasks of a local cluster: loopback, if nothing else."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Mapping, Sequence

from tf_dynacomm.tools import server

ClusterSpec = dict[str, list[str]]

_HOST = "127.0.0.1"


class Network:
    """The loopback interface; also the base of other networks.

    Args:
      counts: How many tasks each job has.

    Attributes:
      cluster_spec: Addresses (`host:port`) by which tasks are reached, by job name.
    """

    def __init__(self, counts: Mapping[str, int]):
        self.cluster_spec: ClusterSpec = free_addresses(counts)

    def task_spec(self, job: str, task: int) -> ClusterSpec:
        """Returns the cluster as a task is told it: its own address is where it listens."""
        del job, task
        return self.cluster_spec

    def server_command(self, job: str, task: int) -> Sequence[str]:
        """Returns the command that serves a task in its place in this network."""
        del job, task
        return (sys.executable, "-m", server.__name__, "--tied_to_stdin")

    def started(self, job: str, task: int, pid: int) -> None:
        """Is told that a task's process has been started."""

    def close(self) -> None:
        """Takes the network down; the tasks must have ended."""


def free_addresses(counts: Mapping[str, int]) -> ClusterSpec:
    """Returns loopback addresses that nobody listens on, all different."""
    with contextlib.ExitStack() as held:

        def free_address() -> str:
            holder = held.enter_context(socket.socket())
            holder.bind((_HOST, 0))
            return f"{_HOST}:{holder.getsockname()[1]}"

        return {job: [free_address() for _ in range(count)] for job, count in counts.items()}
