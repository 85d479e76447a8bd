"""A network on loopback whose connections a relay carries, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from tf_dynacomm.testbed import network, relay
from tf_dynacomm.testbed.link import Link


class RelayNetwork(network.Network):
    """Loopback by way of a `relay`; arguments as `Links` has them.

    Args:
      workers: The link of each worker.
      ps: The link that the PS tasks share.
      ps_tasks: Number of PS tasks.

    Raises:
      RuntimeError: The relay does not start.
    """

    def __init__(self, workers: Sequence[Link], ps: Link, ps_tasks: int):
        self._listening = network.free_addresses({"worker": len(workers), "ps": ps_tasks})
        links = {("worker", number): link for number, link in enumerate(workers)} | {("ps", 0): ps}
        targets = [
            (job, number, int(address.rpartition(":")[2]))
            for job, addresses in self._listening.items()
            for number, address in enumerate(addresses)
        ]
        settings = {
            "targets": targets,
            "links": [[*task, *_values(link)] for task, link in links.items()],
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", relay.__name__, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError("The relay does not start: see the message above.")
        self.cluster_spec = {job: [] for job in self._listening}
        for (job, _, _), port in zip(targets, json.loads(line), strict=True):
            self.cluster_spec[job].append(f"127.0.0.1:{port}")

    def task_spec(self, job: str, task: int) -> network.ClusterSpec:
        """Returns the cluster as a task is told it: only its own address is behind the relay."""
        spec = {job: list(addresses) for job, addresses in self.cluster_spec.items()}
        spec[job][task] = self._listening[job][task]
        return spec

    def started(self, job: str, task: int, pid: int) -> None:
        """Tells the relay whose connections a process's are."""
        self._order("process", job, task, pid)

    def set_link(self, job: str, task: int, link: Link) -> None:
        """Changes a link."""
        self._order("link", job, task, *_values(link))

    def close(self) -> None:
        """Ends the relay."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def _order(self, *order) -> None:
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()


def _values(link: Link) -> tuple[float, float, float]:
    return link.down_bytes_per_s, link.up_bytes_per_s, link.latency_s
