"""`EpochReport`: what an epoch of a re-planned training showed."""

from __future__ import annotations

import dataclasses

import numpy as np

from tf_dynacomm import plan as plan_lib
from tf_dynacomm import policy
from tf_dynacomm.runtime import steps as steps_lib


@dataclasses.dataclass(frozen=True)
class EpochReport:
    """What one epoch showed and what was decided at its end.

    Attributes:
      epoch: The epoch, from 1.
      step_time_s: Median measured seconds from one step's start to the next one's.
      predicted_step_time_s: What is predicted for this epoch's plan, if anything is.
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
      replanned: Whether the plan changed at this epoch's end, or, with `every_steps`, within it.
      reason: Why it did not, and what a trial of another plan has shown.
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


def make(
    epoch: int,
    step: steps_lib.Step | None,
    began_s: float,
    plan_before: plan_lib.Plan | None,
    decision: policy.Decision | None,
    **fields,
) -> EpochReport:
    """Reports an epoch; rates, overheads and shares are means over the workers that were traced.

    Args:
      epoch: The epoch, from 1.
      step: The training step, if one has run.
      began_s: When the epoch began (`time.perf_counter`).
      plan_before: The plan that most workers followed then.
      decision: What was decided, if anything.
      **fields: Further fields of the report.
    """
    after = step and step.plan
    intervals_s = step.intervals_s(since_s=began_s) if step else []
    return EpochReport(
        epoch,
        float(np.median(intervals_s)) if len(intervals_s) else float("nan"),
        predicted_step_time_s=decision and decision.predicted_before_s(),
        pull_segments_before=len(plan_before.pull) if plan_before else 0,
        pull_segments_after=len(after.pull) if after else 0,
        push_segments_before=len(plan_before.push) if plan_before else 0,
        push_segments_after=len(after.push) if after else 0,
        **_measured(decision),
        **fields,
    )


def _measured(decision: policy.Decision | None) -> dict[str, float]:
    if decision is None:
        return {}
    found = [w.measurement for w in decision.proposal.workers.values()]
    return {
        "matched_share": float(np.mean([m.matched_share for m in found])),
        "overhead_pull_s": float(np.mean([m.down.overhead_s for m in found])),
        "overhead_push_s": float(np.mean([m.up.overhead_s for m in found])),
        "rate_down_bytes_per_s": float(np.mean([m.down.rate_bytes_per_s for m in found])),
        "rate_up_bytes_per_s": float(np.mean([m.up.rate_bytes_per_s for m in found])),
    }
