"""A long training in which plans change and a worker dies, by a seeded script."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import tf_dynacomm
from tests.faults import runs, scenarios
from tf_dynacomm.runtime import steps as steps_lib
from tf_dynacomm.testbed import local_cluster

_PLANS = 6
_THIRDS = 3
_LOAD_TIMEOUT_S = 60.0


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a process holds.

    Attributes:
      memory_mib: Resident memory.
      threads: Threads.
      files: Open files; sockets, of which each connection for RPCs has one, are among them.
    """

    memory_mib: float
    threads: int
    files: int


@dataclasses.dataclass
class Soak:
    """A training that is disturbed at even distances.

    Args:
      steps: Steps to train at least.
      changes: How often a worker changes its plan: to one of six with random cuts, each loaded
        beforehand; one worker takes them in turn, then the other.
      kills: How often worker 1 is killed and started again; in the first two thirds.
      seed: Of the script.

    Attributes:
      usage: What each task holds after a third, after two thirds and at the end; worker 1 is not
        the same process before and after a kill.
      done: How often each thing happened.
    """

    steps: int
    changes: int = 0
    kills: int = 0
    seed: int = 0
    usage: dict[str, list[Usage]] = dataclasses.field(default_factory=dict)
    done: dict[str, int] = dataclasses.field(default_factory=dict)

    def train(self, cluster: local_cluster.LocalCluster, stock: bool) -> runs.Run:
        """Trains as the script says; stock has no plans to change."""
        run = runs.Run(cluster, stock=stock)
        # It traces and plans, and leaves the choice of plans to the script.
        callbacks = [] if stock else [tf_dynacomm.ReplanCallback(min_gain=0.99)]
        run.train(self._disturb, callbacks)
        return run

    def _disturb(self, run: runs.Run) -> None:
        run.wait_for_steps(1)
        thirds = self._happenings(run)
        distance = self.steps // sum(map(len, thirds))
        for third in thirds:
            for happen in third:
                happen()
                run.wait_for_steps(distance)
            for task, pid in _pids(run.cluster).items():
                self.usage.setdefault(task, []).append(usage(pid))

    def _happenings(self, run: runs.Run) -> list[list[Callable[[], None]]]:
        """What happens in each third, in order."""
        random = np.random.default_rng(self.seed)
        changes = list(self._changes(run, random)) or [lambda: None] * max(_THIRDS, self.changes)
        thirds = [list(third) for third in np.array_split(np.array(changes, object), _THIRDS)]
        for number in range(self.kills):
            third = thirds[number % (_THIRDS - 1)]
            third.insert(random.integers(len(third) + 1), lambda: self._kill(run.cluster))
        return thirds

    def _changes(self, run: runs.Run, random) -> Iterator[Callable[[], None]]:
        if not self.changes or run.is_stock:
            return
        step = run.strategy.coordinator.training_step
        plans = _plans(step, random)
        for number in range(self.changes):
            plan, worker = plans[number % _PLANS], number // _PLANS % 2
            yield lambda plan=plan, worker=worker: self._change(step, plan, worker)

    def _change(self, step: steps_lib.Step, plan: tf_dynacomm.Plan, worker: int) -> None:
        changes = step.plan_of(worker) != plan
        step.load(plan, worker, _LOAD_TIMEOUT_S, threading.Event())
        step.set_plan(plan, [worker])
        self._count("changes", changes)

    def _kill(self, cluster: local_cluster.LocalCluster) -> None:
        cluster.restart("worker", scenarios.WORKER)
        self._count("kills")

    def _count(self, name: str, times: int = 1) -> None:
        self.done[name] = self.done.get(name, 0) + times


def _plans(step: steps_lib.Step, random) -> list[tf_dynacomm.Plan]:
    """Plans with random cuts, all different from their neighbours."""
    count, found = len(step.layers), {}
    while len(found) < _PLANS:
        pull, push = (_segments(random.random(count - 1) < 0.5) for _ in range(2))
        found[tuple(pull), tuple(push)] = tf_dynacomm.Plan(pull, push[::-1], names=step.names)
    return list(found.values())


def _segments(is_cut: Sequence[bool]) -> list[tuple[int, int]]:
    ends = [*(np.flatnonzero(is_cut) + 1).tolist(), len(is_cut) + 1]
    return list(zip([1, *(end + 1 for end in ends[:-1])], ends, strict=True))


def accuracy(run: runs.Run) -> float:
    """Share of examples that it has not seen that the trained model tells right."""
    vectors, labels = runs.examples(2000, seed=1)
    return float(np.mean(run.model(vectors).numpy().argmax(1) == labels))


def _pids(cluster: local_cluster.LocalCluster) -> dict[str, int]:
    tasks = [("worker", 0), ("worker", 1), ("ps", 0)]
    return {"chief": os.getpid()} | {f"{job} {n}": cluster.pid(job, n) for job, n in tasks}


def usage(pid: int) -> Usage:
    """What a process holds now."""
    process = pathlib.Path("/proc", f"{pid}")
    status = dict(
        line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line
    )
    memory_mib = int(status["VmRSS"].split()[0]) / 1024
    return Usage(memory_mib, int(status["Threads"]), len(list((process / "fd").iterdir())))
