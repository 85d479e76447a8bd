"""`simulate`: what a plan makes of a step's costs."""

from __future__ import annotations

import dataclasses

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import segments


@dataclasses.dataclass(frozen=True)
class Timeline:
    """How long a step takes under a plan (DynaComm, arXiv 2101.07968, section III).

    Attributes:
      forward_s: Seconds from the first pull to the end of layer L's computation.
      backward_s: Seconds from there to the end of the last push.
    """

    forward_s: float
    backward_s: float

    @property
    def iteration_s(self) -> float:
        """Seconds of the whole step."""
        return self.forward_s + self.backward_s


def simulate(costs: costs_lib.LayerCosts, plan: plan_lib.Plan) -> Timeline:
    """Plays a step with the given costs under a plan.

    Raises:
      ValueError: If the plan is for another number of layers.
    """
    if plan.num_layers != len(costs):
        raise ValueError(f"`plan` is for {plan.num_layers} layers, `costs` for {len(costs)}.")
    pull_ends = [last for _, last in plan.pull]
    push_ends = [last for _, last in plan.push[::-1]]
    waits_s = segments.idle_s(pull_ends, costs.pull_s, costs.forward_s, costs.overhead_pull_s)
    forward_s = segments.prefix_sums(costs.forward_s)[-1] + waits_s
    if not push_ends:
        return Timeline(forward_s, 0.0)
    waits_s = segments.idle_s(push_ends, costs.push_s, costs.backward_s, costs.overhead_push_s)
    return Timeline(forward_s, segments.prefix_sums(costs.backward_s)[-1] + waits_s)
