"""Links of given rates and latencies between the tasks of a local cluster.

links = Links([Link(rate, rate, latency_s=0.01), Link(rate / 4, rate / 4)])
with LocalCluster(workers=2, ps=1, links=links) as cluster:
    ...
    links.set_rate("worker", 0, down_bytes_per_s=rate / 8, up_bytes_per_s=rate / 8)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tf_dynacomm.testbed import namespaces, network, relay_network
from tf_dynacomm.testbed.link import Link

NAMESPACES, RELAY = "namespaces", "relay"


class Links:
    """The links of a cluster: one for each worker, and one that all PS tasks share.

    With root they are the kernel's (see `namespaces`): each task has a network namespace of its own
    and `tc` shapes what enters and leaves it. Elsewhere a program carries every connection (see
    `relay`): rates and latencies hold, but TCP on either side of it does not see them.

    Args:
      workers: The workers' links; one `Link` is for any number of workers alike.
      ps: The link between the PS tasks and all workers.
      how: `"namespaces"` or `"relay"`; the former where it is possible if `None`.

    Attributes:
      how: Which is used.

    Raises:
      ValueError: `how` is unknown.
      RuntimeError: `how` is `"namespaces"`, which is not possible; the message says why.
    """

    def __init__(
        self, workers: Link | Sequence[Link], ps: Link | None = None, *, how: str | None = None
    ):
        if how not in (None, NAMESPACES, RELAY):
            raise ValueError(f"`how` ({how!r}) must be {NAMESPACES!r}, {RELAY!r} or None.")
        obstacle = None if how == RELAY else namespaces.obstacle()
        if how == NAMESPACES and obstacle is not None:
            raise RuntimeError(f"Network namespaces cannot be used: {obstacle}")
        self.how: str = how or (NAMESPACES if obstacle is None else RELAY)
        self._workers = workers if isinstance(workers, Link) else tuple(workers)
        self._ps = ps or Link()
        self._links: dict[tuple[str, int], Link] = {}
        self._network: namespaces.Namespaces | relay_network.RelayNetwork | None = None

    def open(self, counts: Mapping[str, int]) -> network.Network:
        """Builds the network for so many tasks of each job; a `LocalCluster` calls it.

        Raises:
          ValueError: There is another number of links than of workers.
          RuntimeError: The network cannot be built, or there is one already.
        """
        if self._network is not None:
            raise RuntimeError("These links are in use: make others for another cluster.")
        count, workers = counts["worker"], self._workers
        workers = (workers,) * count if isinstance(workers, Link) else workers
        if len(workers) != count:
            raise ValueError(f"`links` must be for {count} workers, not for {len(workers)}.")
        self._links = {("worker", task): link for task, link in enumerate(workers)}
        self._links["ps", 0] = self._ps
        made = namespaces.Namespaces if self.how == NAMESPACES else relay_network.RelayNetwork
        self._network = made(workers, self._ps, counts["ps"])
        return self._network

    def close(self) -> None:
        """Takes the network down."""
        if self._network is not None:
            self._network.close()
            self._network = None

    def set_rate(
        self,
        job: str,
        task: int = 0,
        *,
        down_bytes_per_s: float | None = None,
        up_bytes_per_s: float | None = None,
    ) -> None:
        """Changes rates while the cluster runs.

        Args:
          job: `"worker"`, or `"ps"` for the link that the PS tasks share.
          task: Which worker.
          down_bytes_per_s: Rate towards the task; as before if `None`.
          up_bytes_per_s: Rate from the task; as before if `None`.

        Raises:
          RuntimeError: The links are not in use.
          ValueError: There is no such link, or a rate is not positive.
        """
        if self._network is None:
            raise RuntimeError("The links are not in use: set rates in the cluster's `with` block.")
        if (job, task) not in self._links:
            known = ", ".join(f"{job} {task}" for job, task in self._links)
            raise ValueError(f"There is no link of {job} {task}, but of {known}.")
        rates = {"down_bytes_per_s": down_bytes_per_s, "up_bytes_per_s": up_bytes_per_s}
        changed = {name: rate for name, rate in rates.items() if rate is not None}
        link = dataclasses.replace(self._links[job, task], **changed)
        self._network.set_link(job, task, link)
        self._links[job, task] = link
