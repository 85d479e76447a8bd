"""Re-planning of a running training: what is done at each boundary."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
import time

import numpy as np
from absl import logging

from tf_dynacomm import epoch_report, kept_plans
from tf_dynacomm import plan as plan_lib
from tf_dynacomm import planner as planner_lib
from tf_dynacomm import policy as policy_lib
from tf_dynacomm import trial as trial_lib
from tf_dynacomm.profiling import trace

_WAIT_S = 2.0
_POLL_S = 0.01
# The other schedulers are asked for by name, to be compared; they are not to be replaced.
_MAY_RUN_AS_STOCK = "dynacomm"


@dataclasses.dataclass
class _Outcomes:
    """What has come out of an epoch so far."""

    decision: policy_lib.Decision | None = None
    replanned: bool = False
    reasons: list[str] = dataclasses.field(default_factory=list)


class Replanner:
    """Measures a running training and switches its workers to better plans at boundaries.

    `ReplanCallback` does this for `model.fit`. In a custom loop:

        replanner = tf_dynacomm.Replanner(strategy)
        for epoch in range(1, epochs + 1):
            replanner.begin_epoch()
            ...  # coordinator.schedule(...) and coordinator.join()
            print(replanner.end_epoch(epoch))
        replanner.close()

    Capturing, reading and scheduling happen in a background thread while training goes on; a
    failure in them leaves the plans as they are. Workers load the function for a new plan before
    they switch to it, and go back to the plan before if they turn out to be slower for it.

    Args:
      strategy: A `DynaCommStrategy`.
      logdir: Folder for traces, `costs-<epoch>.json` and `plan-<epoch>.json` (the first worker's;
        the others' are `costs-<epoch>-worker<index>.json` and so on, where they differ); nothing
        is kept if `None`. As stock or with a plan set by hand, it is one trace of the first epoch.
      every_steps: Re-plan after so many training steps, at once; at the end of epochs if `None`.
      min_gain: Share of the step time that a new plan must promise to save; less is within the
        noise of measured costs. The starting plan yields to the first one made from a trace.
        Below 0 every plan made is taken.
      plan_dir: Folder to keep the plans in force and their costs in at the end of each epoch,
        beside the checkpoints say. A training that is started again begins with them.

    Raises:
      ValueError: If `every_steps` is no integer above 0, or `strategy` is of another kind.
    """

    def __init__(
        self,
        strategy,
        *,
        logdir: str | pathlib.Path | None = None,
        every_steps: int | None = None,
        min_gain: float = 0.01,
        plan_dir: str | pathlib.Path | None = None,
    ):
        check_interval("every_steps", every_steps)
        if not hasattr(strategy, "plans_itself"):
            kind = type(strategy).__name__
            raise ValueError(f"`strategy` ({kind}) must be a DynaCommStrategy.")
        self._strategy = strategy
        self._logdir = None if logdir is None else pathlib.Path(logdir)
        self._every_steps = every_steps
        may_run_as_stock = strategy.scheduler == _MAY_RUN_AS_STOCK
        self._policy = policy_lib.Policy(min_gain, may_run_as_stock)
        self._planner = planner_lib.Planner(strategy, self._policy, min_gain, self._logdir)
        self._warned: set[str] = set()
        self._watch: threading.Thread | None = None
        self._epoch_ended = threading.Event()
        self._began_s = 0.0
        self._is_first = True
        self._plan_before: plan_lib.Plan | None = None
        self._outcomes = _Outcomes()
        self._predicted_s: float | None = None
        self._unplanned: str | None = None  # Why no trace has been planned from so far.
        self._plan_dir = None if plan_dir is None or not self.active else pathlib.Path(plan_dir)
        if self._plan_dir is not None:
            workers = len(strategy.tasks.workers)
            kept = kept_plans.load(self._plan_dir, workers, strategy.scheduler)
            strategy.coordinator.begin_with(kept)

    @property
    def active(self) -> bool:
        """Whether there is anything to plan: not as stock, nor with a plan set by hand."""
        return self._strategy.plans_itself

    def begin_epoch(self, remaining_steps: int | None = None) -> None:
        """Marks the start of an epoch; a trace is taken once its steps run.

        Args:
          remaining_steps: Steps of all workers together that come after this epoch, so that no
            plan is loaded that would not pay any more; `None` if not known. Re-planning within
            the epoch does not ask for it.
        """
        self._began_s = time.perf_counter()
        step = self._strategy.coordinator.training_step
        self._is_first = step is None
        self._plan_before = step and step.plan
        self._outcomes = _Outcomes()
        if not self.active:
            if self._is_first and self._logdir is not None:
                self._planner.start_recording()
            return
        if self._every_steps is None:
            self._planner.start(remaining_steps)
        else:
            self._epoch_ended.clear()
            self._watch = threading.Thread(target=self._replan_on_the_way, daemon=True)
            self._watch.start()

    def end_epoch(self, epoch: int) -> epoch_report.EpochReport:
        """Decides on the next epoch's plans, and reports.

        Args:
          epoch: The epoch that ended, from 1.
        """
        self._stop_watch()
        if not self.active:
            self._take_recording()
        elif self._every_steps is None:
            self._act(self._planner.take(_WAIT_S))
        for verdict in self._planner.take_verdicts():
            if verdict.plan is None or not verdict.stays:
                runs_as_stock = verdict.plan is None and verdict.stays
                logging.log(logging.WARNING if runs_as_stock else logging.INFO, "%s.", verdict)
                self._outcomes.reasons.append(str(verdict))
        self._leave_stock()
        report = self._report(epoch)
        self._unplanned = None if self._predicted_s else report.reason
        self._save(epoch)
        self._keep()
        return report

    def close(self) -> None:
        """Stops all work in the background; nothing of it is left running."""
        self._stop_watch()
        self._planner.stop()
        if self.active and self._unplanned:
            logging.warning("The training kept its first plan: %s.", self._unplanned)

    def _take_recording(self) -> None:
        failure = self._logdir and self._planner.take(_WAIT_S)
        if failure:
            logging.warning("No trace was kept: %s", failure)

    def _stop_watch(self) -> None:
        self._epoch_ended.set()
        if self._watch is not None:
            self._watch.join()
            self._watch = None

    def _replan_on_the_way(self) -> None:
        coordinator = self._strategy.coordinator
        next_at = coordinator.steps_finished + self._every_steps
        while not self._epoch_ended.wait(_POLL_S) and not coordinator.failing:
            if coordinator.steps_finished >= next_at:
                next_at = coordinator.steps_finished + self._every_steps
                self._planner.start()
            outcome = self._planner.take(0.0)
            if outcome is not None:
                self._act(outcome)

    def _leave_stock(self) -> None:
        """Goes back to plans on workers that run as stock and whose step time has changed."""
        step = self._strategy.coordinator.training_step
        for worker in range(len(self._strategy.tasks.workers)) if step else ():
            intervals_s = step.intervals_s(self._began_s, worker, None)
            if len(intervals_s):
                step_s = float(np.median(intervals_s))
                plan = self._policy.plan_instead_of_stock(worker, step_s)
                if plan is not None:
                    step.set_plan(plan, [worker])

    def _act(self, outcome: policy_lib.Decision | trace.TraceError | None) -> None:
        """Puts what was decided in force."""
        if outcome is None:
            self._outcomes.reasons.append(self._why_no_outcome())
        elif isinstance(outcome, trace.TraceError):
            if str(outcome) not in self._warned:
                logging.warning("The plan is kept: %s", outcome)
            self._warned.add(str(outcome))
            self._outcomes.reasons.append(str(outcome))
        else:
            self._outcomes.decision = outcome
            self._predicted_s = outcome.predicted_s()
            if outcome.plans:
                self._planner.try_out(trial_lib.Trial(outcome.proposal.step, outcome.plans))
                self._outcomes.replanned = True
            if outcome.reason:
                self._outcomes.reasons.append(outcome.reason)

    def _why_no_outcome(self) -> str:
        if self._planner.loading:
            return "workers are still loading a new plan"
        if self._strategy.coordinator.training_step is None:
            return (
                "no step has run that can be planned (one that updates its variables only in a "
                "condition, as with a loss scale, cannot)"
            )
        return "the epoch ended before a trace of it had been taken"

    def _report(self, epoch: int) -> epoch_report.EpochReport:
        step, reasons = self._strategy.coordinator.training_step, self._outcomes.reasons
        return epoch_report.make(
            epoch,
            step,
            self._began_s,
            step and step.first_plan if self._is_first else self._plan_before,
            self._outcomes.decision,
            predicted_next_step_time_s=self._predicted_s,
            replanned=self._outcomes.replanned,
            reason="; ".join(r.rstrip(".") for r in dict.fromkeys(reasons)) or None,
        )

    def _save(self, epoch: int) -> None:
        decision = self._outcomes.decision
        if self._logdir is None or decision is None:
            return
        try:
            self._logdir.mkdir(parents=True, exist_ok=True)
            _save(decision, self._logdir, str(epoch))
        except OSError as e:
            logging.warning("Costs and plan of epoch %d were not saved: %s", epoch, e)

    def _keep(self) -> None:
        step, decision = self._strategy.coordinator.training_step, self._outcomes.decision
        if self._plan_dir is None or step is None:
            return
        workers = decision.proposal.workers.items() if decision else ()
        kept_plans.save(
            self._plan_dir,
            {worker: step.plan_of(worker) for worker in range(len(self._strategy.tasks.workers))},
            {worker: proposed.measurement.costs for worker, proposed in workers},
        )


def check_interval(name: str, steps: int | None) -> None:
    """Checks an argument that says after how many steps to plan anew.

    Raises:
      ValueError: If it is no integer above 0, nor `None`.
    """
    if steps is not None and not (isinstance(steps, int) and steps >= 1):
        raise ValueError(f"`{name}` ({steps}) must be an integer above 0, or None.")


def _save(decision: policy_lib.Decision, logdir: pathlib.Path, epoch: str) -> None:
    """Saves the costs and the plan of the first worker, and those of others that differ in plan."""
    saved = set()
    for worker, proposed in decision.proposal.workers.items():
        plan = decision.proposal.step.plan_of(worker)
        if plan in saved:
            continue
        name = f"{epoch}-worker{worker}" if saved else epoch
        proposed.measurement.costs.save(logdir / f"costs-{name}.json")
        if plan is not None:
            plan.save(logdir / f"plan-{name}.json")
        saved.add(plan)
