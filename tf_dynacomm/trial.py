"""Trials: a plan newly in force has to hold its own against the one before it."""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.runtime import steps as steps_lib

_PAIRS = 3
_BLOCK_STEPS = 5
_MIN_DIFFERENCE = 0.01
_STANDARD_ERRORS = 3.0
_POLL_S = 0.01


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a trial has shown of one worker.

    Attributes:
      worker: The worker.
      plan: The plan tried; `None` for the step as traced.
      before: The plan before it.
      step_s: Median seconds of a step under the plan tried.
      before_s: The same under the one before.
      stays: Whether the plan tried stays in force.
    """

    worker: int
    plan: plan_lib.Plan | None
    before: plan_lib.Plan | None
    step_s: float
    before_s: float
    stays: bool

    def __str__(self):
        tried = "the new plan" if self.plan else "running as stock"
        change = abs(self.step_s / self.before_s - 1)
        than = "slower" if self.step_s > self.before_s else "faster"
        doubt = ", which may be noise" if self.stays == (self.step_s > self.before_s) else ""
        outcome = "it stays" if self.stays else "the plan before it is back"
        return f"{tried} was {change:.1%} {than} on worker {self.worker}{doubt}: {outcome}"


class Trial:
    """Switches workers to new plans, and those back that are slower for it.

    The new plans and those before take turns, a few steps each, so that a machine or link whose
    pace changes meanwhile is not held against either. A plan stays unless it is slower; the step as
    traced, which follows no plan and cannot be adapted any more, stays only if it is faster. All
    plans give the same numbers, so that a trial costs nothing but the time that it takes longer.

    Args:
      step: The step.
      plans: The new plan of each worker; in force at once.

    Attributes:
      step: The step.
    """

    def __init__(self, step: steps_lib.Step, plans: Mapping[int, plan_lib.Plan | None]):
        self.step = step
        self._plans = dict(plans)
        self._before = {worker: step.plan_of(worker) for worker in plans}
        self._blocks: list[dict[int, np.ndarray]] = []
        self._put(self._plans)

    def run(self, stop: threading.Event) -> list[Verdict] | None:
        """Tries the plans while the training goes on; blocks until it is known which ones stay.

        Args:
          stop: Ends the waiting, with the new plans in force.

        Returns:
          What the trial has shown; `None` if it was stopped: another call goes on with it.
        """
        while len(self._blocks) < 2 * _PAIRS:
            plans = self._before if len(self._blocks) % 2 else self._plans
            self._put(plans)
            block = self._block(plans, stop)
            if block is None:
                self._put(self._plans)
                return None
            self._blocks.append(block)
        verdicts = [v for worker in self._plans if (v := self._verdict(worker))]
        stay = {v.worker for v in verdicts if v.stays}
        self._put({w: (self._plans if w in stay else self._before)[w] for w in self._plans})
        return verdicts

    def _put(self, plans: Mapping[int, plan_lib.Plan | None]) -> None:
        workers = collections.defaultdict(list)
        for worker, plan in plans.items():
            workers[plan].append(worker)
        for plan, following in workers.items():
            self.step.set_plan(plan, following)

    def _block(self, plans: Mapping, stop: threading.Event) -> dict[int, np.ndarray] | None:
        """The steps of each worker by these plans, from now until all have run enough.

        A worker that has stopped is not waited for once others have run four times as many.
        """
        since_s = time.perf_counter()
        while not stop.wait(_POLL_S):
            block = {w: self.step.intervals_s(since_s, w, plan) for w, plan in plans.items()}
            counts = [len(times_s) for times_s in block.values()]
            if min(counts) >= _BLOCK_STEPS or max(counts) >= 4 * _BLOCK_STEPS:
                return block
        return None

    def _verdict(self, worker: int) -> Verdict | None:
        blocks = [block[worker] for block in self._blocks]
        if min(len(block) for block in blocks) < _BLOCK_STEPS:
            return None
        new, old = blocks[::2], blocks[1::2]
        plan = self._plans[worker]
        stays = is_slower(old, new) if plan is None else not is_slower(new, old)
        medians_s = (float(np.median(np.concatenate(b))) for b in (new, old))
        return Verdict(worker, plan, self._before[worker], *medians_s, stays)


def is_slower(one_s: Sequence[np.ndarray], other_s: Sequence[np.ndarray]) -> bool:
    """Whether steps take longer than others that ran in turn with them, by more than the noise.

    Medians are compared, since single steps wait for other things too. They must differ by 1 % and
    by three standard errors, which are taken from the median absolute deviations, and they must
    differ in the same direction in each pair of blocks.

    Args:
      one_s: Seconds of each step, in blocks.
      other_s: The same of the others; block i ran next to block i of `one_s`.
    """
    pairs = zip(one_s, other_s, strict=True)
    if not all(np.median(one) > np.median(other) for one, other in pairs):
        return False
    one, other = np.concatenate(one_s), np.concatenate(other_s)
    noise_s = np.hypot(_standard_error_s(one), _standard_error_s(other))
    least_s = max(_STANDARD_ERRORS * noise_s, _MIN_DIFFERENCE * np.median(other))
    return bool(np.median(one) - np.median(other) > least_s)


def _standard_error_s(times_s: np.ndarray) -> float:
    """Standard error of the median, were the times normally distributed."""
    deviation_s = 1.4826 * np.median(np.abs(times_s - np.median(times_s)))
    return 1.2533 * float(deviation_s) / np.sqrt(len(times_s))
