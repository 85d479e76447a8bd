"""Sequential: one pull, all computation, one push; nothing overlaps."""

from __future__ import annotations

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import credits


def schedule(costs: costs_lib.LayerCosts, credit: int | None = 1) -> plan_lib.Plan:
    """A plan with one segment each way."""
    ends = [len(costs)]
    return credits.plan(costs, lambda _: ends, ends, "sequential", credit)
