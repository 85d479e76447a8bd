"""Layer by layer (wait-free backpropagation, Poseidon): every layer is a segment."""

from __future__ import annotations

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import credits


def schedule(costs: costs_lib.LayerCosts, credit: int | None = 1) -> plan_lib.Plan:
    """A plan with as many segments as layers."""
    ends = range(1, len(costs) + 1)
    return credits.plan(costs, lambda _: ends, ends, "layer_by_layer", credit)
