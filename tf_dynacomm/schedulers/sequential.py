"""Sequential: one pull, all computation, one push; nothing overlaps."""

from __future__ import annotations

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib


def schedule(costs: costs_lib.LayerCosts) -> plan_lib.Plan:
    """A plan with one segment each way."""
    whole = ((1, len(costs)),)
    return plan_lib.Plan(whole, whole, names=costs.names, scheduler="sequential")
