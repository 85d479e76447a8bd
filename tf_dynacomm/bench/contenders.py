"""Who competes: stock, and this package's runtime under the plans of several schedulers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm import schedulers

STOCK, SEQUENTIAL = "stock", "sequential"

_DDP_MIB = 25.0  # PyTorch DDP's `bucket_cap_mb`.
_HOROVOD_MIB = 64.0  # Horovod's fusion threshold until 0.20.


def _bucketed(costs, rate_bytes_per_s: float, scale: float, bucket_mib: float) -> plan_lib.Plan:
    options = {"bucket_mib": bucket_mib * scale, "rate_bytes_per_s": rate_bytes_per_s}
    return schedulers.get("bucketed")(costs, **options)


def _scheduled(name: str, costs, rate_bytes_per_s: float, scale: float) -> plan_lib.Plan:
    del rate_bytes_per_s, scale
    return schedulers.get(name)(costs)


_PLANNERS: dict[str, Callable[..., plan_lib.Plan]] = {
    **{
        name: functools.partial(_scheduled, name)
        for name in (SEQUENTIAL, "layer_by_layer", "ibatch")
    },
    "bucketed_25mib": functools.partial(_bucketed, bucket_mib=_DDP_MIB),
    "bucketed_64mib": functools.partial(_bucketed, bucket_mib=_HOROVOD_MIB),
    "dynacomm": functools.partial(_scheduled, "dynacomm"),
}

NAMES = (STOCK, *_PLANNERS)
"""All contenders."""


def plans(
    names: Sequence[str], costs: costs_lib.LayerCosts, pull_bytes: Sequence[int], scale: float = 1.0
) -> dict[str, plan_lib.Plan | None]:
    """Makes the plans of contenders, all from the same costs.

    Args:
      names: The contenders.
      costs: The step's costs.
      pull_bytes: Bytes of each layer's parameters, which tell the link's rate.
      scale: Size of the model against the real one's; buckets are scaled with it.

    Returns:
      The plan of each contender; `None` for stock, which has none.

    Raises:
      KeyError: There is no such contender.
    """
    rate_bytes_per_s = float(np.sum(pull_bytes) / costs.pull_s.sum())
    return {
        name: None if name == STOCK else _PLANNERS[name](costs, rate_bytes_per_s, scale)
        for name in names
    }
