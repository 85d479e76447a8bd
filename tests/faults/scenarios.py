"""The faults: one list for the tests and for `benchmarks.reliability`."""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import threading
import time
from collections.abc import Callable

from tests.faults import runs
from tf_dynacomm import trial
from tf_dynacomm.profiling import profiler_service
from tf_dynacomm.runtime import steps
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed import local_cluster

LINK_BYTES_PER_S = 25e6
_STEPS = 30
WORKER = 1


@dataclasses.dataclass(frozen=True)
class Observation:
    """What a training went through.

    Attributes:
      steps_asked: Steps that the training had to do.
      steps_counted: Steps by the optimizer's count; TensorFlow does an interrupted step again,
        which may then count twice.
      standstill_s: Longest time without a step's end, from the fault on.
      back_s: Seconds from the end of the fault to the next step of the worker that it hit; `None`
        if it does not come back.
    """

    steps_asked: int
    steps_counted: int
    standstill_s: float
    back_s: float | None

    @property
    def steps_lost(self) -> int:
        """Steps that were never done."""
        return max(self.steps_asked - self.steps_counted, 0)

    @property
    def steps_twice(self) -> int:
        """Steps that were done twice."""
        return max(self.steps_counted - self.steps_asked, 0)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A fault that befalls worker 1 while it trains; training goes on.

    Attributes:
      name: What happens.
      inject: Does it; returns when the fault is over.
      returns: Whether the worker comes back by itself.
      before_steps: Steps that are trained before it happens.
      during: A function of our planning, as its owner and its name: it happens while that runs.
      over_links: Whether the cluster is to have links of `LINK_BYTES_PER_S`.
    """

    name: str
    inject: Callable[[local_cluster.LocalCluster], None]
    returns: bool = True
    before_steps: int = _STEPS
    during: tuple[object, str] | None = None
    over_links: bool = False

    def observe(
        self, run: runs.Run, callbacks=(), until: Callable[[], bool] = lambda: True
    ) -> Observation:
        """Trains, lets it happen, and trains on until what comes back has come back.

        Args:
          run: The training.
          callbacks: Callbacks of `fit`.
          until: Asked again and again after that; ends the training.
        """
        moments_s: list[float] = []

        def disturb(run: runs.Run) -> None:
            self._wait(run, begun)
            moments_s.append(time.monotonic())
            self.inject(run.cluster)
            moments_s.append(time.monotonic())
            run.wait_for_steps(_STEPS, WORKER if self.returns else None)
            runs.wait_until(until)

        with runs.told(*self.during or (run, "train")) as begun:
            run.train(disturb, callbacks)
        began_s, over_s = moments_s
        back_s = run.steps_since(over_s, WORKER)[0] - over_s if self.returns else None
        return Observation(run.steps_asked, run.steps_counted, run.standstill_s(began_s), back_s)

    def _wait(self, run: runs.Run, begun: threading.Event) -> None:
        runs.wait_until(begun.is_set)
        if self.before_steps and self.during is None:
            run.wait_for_steps(self.before_steps)


def heal(run: runs.Run) -> None:
    """Starts a worker that was killed for good again, and waits until the training uses it.

    TensorFlow tries to reach a lost worker until it is back, and that while another strategy
    joins a cluster ends the process.
    """
    run.cluster.restart("worker", WORKER)
    run.train(lambda run: run.wait_for_steps(1, WORKER))


def _kill(cluster: local_cluster.LocalCluster) -> None:
    cluster.kill("worker", WORKER)


def _kill_and_restart(cluster: local_cluster.LocalCluster) -> None:
    cluster.restart("worker", WORKER)


def _stop(seconds: float, cluster: local_cluster.LocalCluster) -> None:
    _pause(cluster.pid("worker", WORKER), seconds)


def _cut_links(seconds: float, cluster: local_cluster.LocalCluster) -> None:
    _pause(cluster.links._network._process.pid, seconds)  # The relay, through which all goes.


def _slow_link(seconds: float, cluster: local_cluster.LocalCluster) -> None:
    _set_rate(cluster, 0.01 * LINK_BYTES_PER_S)
    time.sleep(seconds)
    _set_rate(cluster, LINK_BYTES_PER_S)


def _set_rate(cluster: local_cluster.LocalCluster, bytes_per_s: float) -> None:
    cluster.links.set_rate(
        "worker", WORKER, down_bytes_per_s=bytes_per_s, up_bytes_per_s=bytes_per_s
    )


def _pause(pid: int, seconds: float) -> None:
    """Stops a process for a while, by another one: TensorFlow may hold up all threads of this."""
    script = f"kill -STOP {pid}; sleep {seconds}; kill -CONT {pid}"
    subprocess.run(["sh", "-c", script], check=True)


def scenarios(stopped_s: float = 3.0, cut_s: float = 3.0) -> tuple[Scenario, ...]:
    """All of them.

    Args:
      stopped_s: How long a worker is stopped.
      cut_s: How long links are cut, or slow.
    """
    stop, cut, slow = (
        functools.partial(inject, seconds)
        for inject, seconds in ((_stop, stopped_s), (_cut_links, cut_s), (_slow_link, cut_s))
    )
    again = _kill_and_restart
    return (
        Scenario("worker killed and started again", again),
        Scenario("worker killed during the first trace", again, before_steps=0),
        Scenario("worker killed while it is traced", again, during=(profiler_service, "profile")),
        Scenario("worker killed while it loads a plan", again, during=(steps.Step, "load")),
        Scenario("worker killed as plans change", again, during=(trial.Trial, "run")),
        Scenario("worker killed for good", _kill, returns=False),
        Scenario(f"worker stopped for {stopped_s:g} s", stop),
        Scenario(
            f"worker stopped for {stopped_s:g} s as it loads a plan",
            stop,
            during=(steps.Step, "load"),
        ),
        Scenario(f"all links cut for {cut_s:g} s", cut, over_links=True),
        Scenario(f"link at 1 % of its rate for {cut_s:g} s", slow, over_links=True),
    )


def cluster_for(over_links: bool) -> local_cluster.LocalCluster:
    """A cluster of two workers and a PS, with links or on loopback as it is."""
    if not over_links:
        return local_cluster.LocalCluster(2, 1)
    link = links_lib.Link(LINK_BYTES_PER_S, LINK_BYTES_PER_S)
    return local_cluster.LocalCluster(2, 1, links=links_lib.Links(link, how=links_lib.RELAY))
