"""The policy of re-planning: which of the plans proposed are worth a change."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping

from tf_dynacomm import plan as plan_lib
from tf_dynacomm import proposal as proposal_lib
from tf_dynacomm import trial

# Stock overlaps transfers with computation too, though in no order, so that it may be as fast where
# the best plan hides no more than this share of a step.
_MAX_HIDDEN_SHARE_TO_TRY_STOCK = 0.3
_MIN_STEPS_TO_TRY_STOCK = 100
# What has failed is not tried again in so many decisions.
_FAILED_FOR = 10
# Stock is left when its step time changes by more than this share.
_CHANGED = 0.25


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is done with a proposal.

    Attributes:
      proposal: The proposal.
      plans: The new plan of each worker that gets one; `None` to run the step as traced.
      reason: Why the others, or all, keep theirs.
    """

    proposal: proposal_lib.Proposal
    plans: Mapping[int, plan_lib.Plan | None]
    reason: str | None

    def predicted_before_s(self) -> float:
        """Predicted seconds of a step under the plans that were in force, mean of the workers."""
        return statistics.fmean(w.predicted_s(w.current) for w in self.proposal.workers.values())

    def predicted_s(self) -> float:
        """Predicted seconds of a step under the plans decided on, mean of the workers."""
        workers = self.proposal.workers.items()
        return statistics.fmean(w.predicted_s(self.plans.get(i) or w.current) for i, w in workers)


class Policy:
    """Decides on proposals, and learns from trials.

    Args:
      min_gain: Share of the step time that a new plan must promise to save. The starting plan
        yields to the first one made from a trace. Below 0 every plan is taken.
      may_run_as_stock: Whether to try the step as traced, without any plan, where little can be
        gained by planning.
    """

    def __init__(self, min_gain: float, may_run_as_stock: bool):
        self._min_gain = min_gain
        self._may_run_as_stock = may_run_as_stock
        self._decisions = 0
        self._failed: dict[tuple[int, plan_lib.Plan | None], int] = {}
        self._as_stock: dict[int, trial.Verdict] = {}

    def decide(
        self,
        proposal: proposal_lib.Proposal,
        loading_s: float,
        remaining_steps: int | None = None,
    ) -> Decision:
        """Decides which workers change their plan.

        Args:
          proposal: The plans proposed.
          loading_s: Seconds that a worker takes to load the function for a new plan.
          remaining_steps: Steps that each worker will still run; `None` if not known.
        """
        self._decisions += 1
        plans, reasons = {}, []
        for worker, proposed in proposal.workers.items():
            reason = self._reason_to_keep(worker, proposed)
            if reason is None:
                plans[worker] = proposed.plan
            elif self._tries_stock(worker, proposed, remaining_steps):
                plans[worker] = None
            else:
                reasons.append(reason)
        saving_s = _saving_s(proposal, plans, remaining_steps)
        if self._min_gain >= 0 and plans and None not in plans.values() and saving_s < loading_s:
            reason = (
                f"in the steps that remain a new plan would save {saving_s:.2g} s, less than the "
                f"{loading_s:.2g} s that it takes to load"
            )
            return Decision(proposal, {}, reason)
        return Decision(proposal, plans, reasons[0] if reasons else None)

    def learn(self, verdicts: Iterable[trial.Verdict]) -> None:
        """Remembers what trials have shown."""
        for verdict in verdicts:
            if not verdict.stays:
                self._failed[verdict.worker, verdict.plan] = self._decisions
            elif verdict.plan is None:
                self._as_stock[verdict.worker] = verdict

    def plan_instead_of_stock(self, worker: int, step_s: float) -> plan_lib.Plan | None:
        """The plan to go back to, if a worker that runs as stock has got much slower or faster.

        Args:
          worker: The worker.
          step_s: Its present seconds for a step.
        """
        verdict = self._as_stock.get(worker)
        if verdict is None or abs(step_s - verdict.step_s) <= _CHANGED * verdict.step_s:
            return None
        del self._as_stock[worker]
        return verdict.before

    def _reason_to_keep(self, worker: int, proposed: proposal_lib.WorkerProposal) -> str | None:
        if proposed.plan == proposed.current:
            return "the plan in force is the best one"
        if self._has_failed(worker, proposed.plan):
            return "the plan proposed was measured slower than the one in force"
        first = proposed.current.scheduler != proposed.plan.scheduler
        before_s = proposed.predicted_s(proposed.current)
        if not first and proposed.saved_s < self._min_gain * before_s:
            return f"less than {self._min_gain:.0%} would be gained"
        return None

    def _tries_stock(self, worker, proposed, remaining_steps: int | None) -> bool:
        enough = remaining_steps is None or remaining_steps >= _MIN_STEPS_TO_TRY_STOCK
        return (
            self._may_run_as_stock
            and enough
            and proposed.hidden_share < _MAX_HIDDEN_SHARE_TO_TRY_STOCK
            and not self._has_failed(worker, None)
        )

    def _has_failed(self, worker: int, plan: plan_lib.Plan | None) -> bool:
        failed_at = self._failed.get((worker, plan))
        return failed_at is not None and self._decisions - failed_at <= _FAILED_FOR


def _saving_s(proposal, plans: Mapping, remaining_steps: int | None) -> float:
    """Seconds that each worker saves with the new plans until the end of the training."""
    if remaining_steps is None:
        return float("inf")
    saved_s = [proposal.workers[w].saved_s for w, plan in plans.items() if plan is not None]
    return remaining_steps * sum(saved_s) / max(len(saved_s), 1)
