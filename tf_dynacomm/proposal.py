"""Proposals: what a trace of the workers suggests that each of them does next."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm import timeline
from tf_dynacomm.profiling import measure
from tf_dynacomm.runtime import steps as steps_lib
from tf_dynacomm.schedulers import sequential


@dataclasses.dataclass(frozen=True)
class WorkerProposal:
    """A plan made from the trace of one worker.

    Attributes:
      current: The plan that was in force.
      plan: The plan proposed.
      measurement: The costs that it was made from, and how they were measured.
      outside_s: Seconds of a step that lie outside the model: from the arrival of its last push to
        the next step's first request.
    """

    current: plan_lib.Plan
    plan: plan_lib.Plan
    measurement: measure.Measurement
    outside_s: float

    def predicted_s(self, plan: plan_lib.Plan) -> float:
        """Predicted seconds of a step under a plan."""
        return timeline.simulate(self.measurement.costs, plan).iteration_s + self.outside_s

    @property
    def saved_s(self) -> float:
        """Predicted seconds that the plan proposed saves in each step."""
        return self.predicted_s(self.current) - self.predicted_s(self.plan)

    @property
    def hidden_share(self) -> float:
        """Share of an unscheduled step that the plan proposed hides: the most that it can gain."""
        unscheduled_s = self.predicted_s(sequential.schedule(self.measurement.costs))
        return 1.0 - self.predicted_s(self.plan) / unscheduled_s


@dataclasses.dataclass(frozen=True)
class Proposal:
    """Plans made from one trace.

    Attributes:
      step: The step that was traced.
      workers: What is proposed to each worker that was traced, by its index.
    """

    step: steps_lib.Step
    workers: Mapping[int, WorkerProposal]


def choose_plans(
    costs: Mapping[int, costs_lib.LayerCosts],
    schedule: Callable[[costs_lib.LayerCosts], plan_lib.Plan],
    min_gain: float,
    known: Iterable[plan_lib.Plan] = (),
) -> dict[int, plan_lib.Plan]:
    """A plan for each worker: its own, or one that is there already and about as good.

    Costs are never measured twice alike, so that even equal workers would all get plans of their
    own, and new ones each time. A worker takes a known plan, or that of another worker, if its own
    is not faster by `min_gain`; of the others' plans the one that suits most is taken first.

    Args:
      costs: The costs of each worker.
      schedule: Makes a plan from costs.
      min_gain: Share of the step time that a plan of its own must save. Below 0 all get their own.
      known: Plans whose functions are there, the one to prefer first.
    """
    own = {worker: schedule(c) for worker, c in costs.items()}
    if min_gain < 0:
        return own
    own_s = {w: timeline.simulate(costs[w], plan).iteration_s for w, plan in own.items()}

    def suits(plan: plan_lib.Plan, worker: int) -> bool:
        step_s = timeline.simulate(costs[worker], plan).iteration_s
        return step_s - own_s[worker] <= min_gain * step_s

    chosen: dict[int, plan_lib.Plan] = {}
    for plan in known:
        chosen.update({w: plan for w in costs if w not in chosen and suits(plan, w)})
    suited = {plan: [w for w in costs if suits(plan, w)] for plan in own.values()}
    while len(chosen) < len(own):
        count = collections.Counter(
            {plan: sum(w not in chosen for w in workers) for plan, workers in suited.items()}
        )
        plan, _ = count.most_common(1)[0]
        chosen.update({w: plan for w in suited[plan] if w not in chosen})
    return chosen
