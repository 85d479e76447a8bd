"""When steps ran: what the chief sees of each worker's pace."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import threading

import numpy as np

from tf_dynacomm import plan as plan_lib

_MAX_TIMES = 4096
ANY = object()


@dataclasses.dataclass(frozen=True)
class StepTime:
    """When one step ran.

    Attributes:
      worker: The worker's index.
      start_s: When the chief handed it to the worker (`time.perf_counter`).
      end_s: When the worker had finished it.
      plan: The plan in force; `None` for the step as traced.
    """

    worker: int
    start_s: float
    end_s: float
    plan: plan_lib.Plan | None


class StepTimes:
    """The latest finished steps of all workers; for use by several threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._times: collections.deque[StepTime] = collections.deque(maxlen=_MAX_TIMES)

    def add(self, time: StepTime) -> None:
        """Adds a finished step."""
        with self._lock:
            self._times.append(time)

    def latest(self) -> list[StepTime]:
        """The steps, oldest first."""
        with self._lock:
            return list(self._times)

    def intervals_s(self, since_s: float = 0.0, worker: int | None = None, plan=ANY) -> np.ndarray:
        """Seconds from each step's start to the start of the same worker's next one.

        A step after which the plan changed does not count: its successor may have waited for the
        new plan.

        Args:
          since_s: Only steps that started then or later (`time.perf_counter`).
          worker: Only this worker's; all workers' if `None`.
          plan: Only steps by this plan, or as traced if `None`; those by any plan if `ANY`.
        """
        later = collections.defaultdict(list)
        for step in reversed(self.latest()):
            if step.end_s < since_s:
                break
            if step.start_s >= since_s and worker in (None, step.worker):
                later[step.worker].append(step)
        pairs = itertools.chain.from_iterable(itertools.pairwise(s[::-1]) for s in later.values())
        return np.array(
            [b.start_s - a.start_s for a, b in pairs if a.plan == b.plan and plan in (ANY, a.plan)]
        )
