"""Sequential: one pull, all computation, one push; nothing overlaps."""

from __future__ import annotations

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import segments


def schedule(costs: costs_lib.LayerCosts, credit: int = 1) -> plan_lib.Plan:
    """A plan with one segment each way."""
    return segments.plan(costs, [len(costs)], [len(costs)], "sequential", credit)
