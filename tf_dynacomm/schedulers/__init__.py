"""Schedulers: costs → plan, by name.

>>> from tf_dynacomm import LayerCosts, schedulers
>>> costs = LayerCosts([3, 1], [2, 2], [4, 2], [3, 1], overhead_s=0.5)
>>> schedulers.get("dynacomm")(costs).pull
((1, 1), (2, 2))
"""

from __future__ import annotations

from collections.abc import Callable

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import (
    bucketed,
    dynacomm,
    dynacomm_dp,
    exhaustive,
    ibatch,
    layer_by_layer,
    sequential,
)

Scheduler = Callable[..., plan_lib.Plan]
"""Called with costs, and with `credit` (1 unless given): how many pull segments may be in flight.

`None` has the scheduler choose the credit.
"""

_SCHEDULERS: dict[str, Scheduler] = {
    "dynacomm": dynacomm.schedule,
    "dynacomm_dp": dynacomm_dp.schedule,
    "ibatch": ibatch.schedule,
    "bucketed": bucketed.schedule,
    "layer_by_layer": layer_by_layer.schedule,
    "sequential": sequential.schedule,
    "exhaustive": exhaustive.schedule,
}


def names() -> tuple[str, ...]:
    """The names of all schedulers."""
    return tuple(_SCHEDULERS)


def get(name: str) -> Scheduler:
    """Returns a scheduler.

    Raises:
      ValueError: If there is none of that name; the message lists those there are.
    """
    if name not in _SCHEDULERS:
        raise ValueError(f"`scheduler` ({name!r}) must be one of {', '.join(names())}.")
    return _SCHEDULERS[name]
