"""Re-planning of a running training: what is decided at each boundary, and the report of it."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
import time

import numpy as np
from absl import logging

from tf_dynacomm import planner as planner_lib
from tf_dynacomm.profiling import trace

_WAIT_S = 2.0


@dataclasses.dataclass(frozen=True)
class EpochReport:
    """What one epoch showed and what was decided at its end.

    Attributes:
      epoch: The epoch, from 1.
      step_time_s: Median measured seconds from one step's start to the next one's.
      predicted_step_time_s: What had been predicted for this epoch's plan, if anything was.
      predicted_next_step_time_s: What is predicted for the next epoch's plan.
      pull_segments_before: Number of pull segments in this epoch's plan; 0 as stock.
      pull_segments_after: The same in the next epoch's.
      push_segments_before: Number of push segments in this epoch's plan.
      push_segments_after: The same in the next epoch's.
      matched_share: Share of the traced operations' time that was found in the step's graph.
      overhead_pull_s: Δt of a pull (seconds).
      overhead_push_s: Δt of a push (seconds).
      rate_down_bytes_per_s: Rate from the PS to the worker.
      rate_up_bytes_per_s: Rate from the worker to the PS.
      replanned: Whether the plan changed at this epoch's end.
      reason: Why it did not.
    """

    epoch: int
    step_time_s: float
    predicted_step_time_s: float | None = None
    predicted_next_step_time_s: float | None = None
    pull_segments_before: int = 0
    pull_segments_after: int = 0
    push_segments_before: int = 0
    push_segments_after: int = 0
    matched_share: float | None = None
    overhead_pull_s: float | None = None
    overhead_push_s: float | None = None
    rate_down_bytes_per_s: float | None = None
    rate_up_bytes_per_s: float | None = None
    replanned: bool = False
    reason: str | None = None


@dataclasses.dataclass(frozen=True)
class _Decision:
    """The outcome of one attempt to re-plan."""

    proposal: planner_lib.Proposal | None = None
    replanned: bool = False
    reason: str | None = None


class Replanner:
    """Measures a running training and switches its step to better plans at boundaries.

    `ReplanCallback` does this for `model.fit`. In a custom loop:

        replanner = tf_dynacomm.Replanner(strategy)
        for epoch in range(1, epochs + 1):
            replanner.begin_epoch()
            ...  # coordinator.schedule(...) and coordinator.join()
            print(replanner.end_epoch(epoch))
        replanner.close()

    Capturing, reading and scheduling happen in a background thread while training goes on; a
    failure in them leaves the plan as it is.

    Args:
      strategy: A `DynaCommStrategy`.
      logdir: Folder for traces, `costs-<epoch>.json` and `plan-<epoch>.json`; nothing is kept if
        `None`.
      every_steps: Re-plan after so many training steps, at once; at the end of epochs if `None`.
      min_gain: Share of the step time that a new plan must promise to save; less is within the
        noise of measured costs. The starting plan yields to the first one made from a trace.

    Raises:
      ValueError: If `every_steps` is less than 1.
    """

    def __init__(
        self,
        strategy,
        *,
        logdir: str | pathlib.Path | None = None,
        every_steps: int | None = None,
        min_gain: float = 0.01,
    ):
        if every_steps is not None and every_steps < 1:
            raise ValueError(f"`every_steps` ({every_steps}) must be at least 1, or None.")
        self._strategy = strategy
        self._logdir = None if logdir is None else pathlib.Path(logdir)
        self._every_steps = every_steps
        self._min_gain = min_gain
        self._planner = planner_lib.Planner(strategy, self._logdir)
        self._decisions: list[_Decision] = []
        self._predicted_s: float | None = None
        self._warned: set[str] = set()
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def active(self) -> bool:
        """Whether there is anything to plan: not as stock, nor with a plan set by hand."""
        return self._strategy.plans_itself

    def begin_epoch(self) -> None:
        """Marks the start of an epoch; a trace is taken once its steps run."""
        self._began_s = time.perf_counter()
        step = self._strategy.coordinator.training_step
        self._plan_before = step and step.plan
        self._decisions = []
        if self.active and self._every_steps is None:
            self._planner.start()
        elif self.active and not (self._watch and self._watch.is_alive()):
            self._watch = threading.Thread(target=self._replan_on_the_way, daemon=True)
            self._watch.start()

    def end_epoch(self, epoch: int) -> EpochReport:
        """Decides on the next epoch's plan, and reports.

        Args:
          epoch: The epoch that ended, from 1.
        """
        if self.active and self._every_steps is None:
            self._decisions.append(self._decide(self._planner.take(_WAIT_S)))
        report = self._report(epoch)
        self._save(epoch)
        return report

    def close(self) -> None:
        """Stops all work in the background; nothing of it is left running."""
        self._closed.set()
        if self._watch is not None:
            self._watch.join()
            self._watch = None
        self._planner.stop()

    def _replan_on_the_way(self) -> None:
        coordinator = self._strategy.coordinator
        next_at = coordinator.steps_finished + self._every_steps
        while not self._closed.wait(0.01) and not coordinator.failing:
            if coordinator.steps_finished >= next_at:
                next_at = coordinator.steps_finished + self._every_steps
                self._planner.start()
            outcome = self._planner.take(0.0)
            if outcome is not None:
                self._decisions.append(self._decide(outcome))

    def _decide(self, outcome: planner_lib.Proposal | trace.TraceError | None) -> _Decision:
        if outcome is None:
            return _Decision(reason="the epoch ended before a trace of it had been taken")
        if isinstance(outcome, trace.TraceError):
            if str(outcome) not in self._warned:
                logging.warning("The plan is kept: %s", outcome)
            self._warned.add(str(outcome))
            return _Decision(reason=str(outcome))
        before_s = outcome.predicted_s(outcome.current)
        after_s = outcome.predicted_s(outcome.plan)
        self._predicted_s = before_s
        if outcome.plan == outcome.current:
            return _Decision(outcome, reason="the plan in force is the best one")
        first = outcome.current.scheduler != outcome.plan.scheduler
        if not first and before_s - after_s < self._min_gain * before_s:
            return _Decision(outcome, reason=f"less than {self._min_gain:.0%} would be gained")
        outcome.step.set_plan(outcome.plan)
        self._predicted_s = after_s
        return _Decision(outcome, replanned=True)

    def _report(self, epoch: int) -> EpochReport:
        step = self._strategy.coordinator.training_step
        after = step and step.plan
        before = self._plan_before or (step and step.first_plan)
        intervals_s = step.intervals_s(since_s=self._began_s) if step else []
        decision = self._decisions[-1] if self._decisions else _Decision()
        proposal = next((d.proposal for d in reversed(self._decisions) if d.proposal), None)
        return EpochReport(
            epoch,
            float(np.median(intervals_s)) if len(intervals_s) else float("nan"),
            predicted_step_time_s=proposal and proposal.predicted_s(proposal.current),
            predicted_next_step_time_s=self._predicted_s,
            pull_segments_before=len(before.pull) if before else 0,
            pull_segments_after=len(after.pull) if after else 0,
            push_segments_before=len(before.push) if before else 0,
            push_segments_after=len(after.push) if after else 0,
            replanned=any(d.replanned for d in self._decisions),
            reason=decision.reason,
            **_measured(proposal),
        )

    def _save(self, epoch: int) -> None:
        proposals = [d.proposal for d in self._decisions if d.proposal]
        if self._logdir is None or not proposals:
            return
        try:
            self._logdir.mkdir(parents=True, exist_ok=True)
            proposals[-1].measurement.costs.save(self._logdir / f"costs-{epoch}.json")
            proposals[-1].step.plan.save(self._logdir / f"plan-{epoch}.json")
        except OSError as e:
            logging.warning("Costs and plan of epoch %d were not saved: %s", epoch, e)


def _measured(proposal: planner_lib.Proposal | None) -> dict[str, float]:
    if proposal is None:
        return {}
    measurement = proposal.measurement
    return {
        "matched_share": measurement.matched_share,
        "overhead_pull_s": measurement.down.overhead_s,
        "overhead_push_s": measurement.up.overhead_s,
        "rate_down_bytes_per_s": measurement.down.rate_bytes_per_s,
        "rate_up_bytes_per_s": measurement.up.rate_bytes_per_s,
    }
