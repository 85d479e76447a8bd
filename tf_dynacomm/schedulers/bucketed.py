"""Buckets of a fixed size, as Horovod's fusion threshold and DDP's `bucket_cap_mb` make them.

Layers go into the open bucket, in the order in which they travel, until the next one would make it
larger than the size; a layer larger than that has a bucket of its own. Computation and overhead
play no part, so that one size fits no two links.
"""

from __future__ import annotations

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import credits

_DEFAULT_MIB = 25.0  # PyTorch DDP's `bucket_cap_mb`.
_DEFAULT_SHARE = 0.1  # About what 25 MiB are of ResNet-152.
_MIB = 2**20


def schedule(
    costs: costs_lib.LayerCosts,
    credit: int | None = 1,
    *,
    bucket_mib: float = _DEFAULT_MIB,
    rate_bytes_per_s: float | None = None,
) -> plan_lib.Plan:
    """A plan whose segments are buckets, filled from layer 1 for pulls and from L for pushes.

    Args:
      costs: The step's costs; they tell seconds on the link, not bytes.
      credit: How many pull segments may be in flight; the best number if `None`.
      bucket_mib: Size of a bucket in MiB.
      rate_bytes_per_s: The link's rate, which tells bytes from seconds. Where it is not known, a
        bucket holds a tenth of the model, whatever `bucket_mib` is.

    Raises:
      ValueError: If `bucket_mib` or `rate_bytes_per_s` is not positive.
    """
    for name, value in {"bucket_mib": bucket_mib, "rate_bytes_per_s": rate_bytes_per_s}.items():
        if value is not None and not value > 0:
            raise ValueError(f"`{name}` ({value}) must be positive.")

    def limit_s(transfer_s: np.ndarray) -> float:
        if rate_bytes_per_s is None:
            return _DEFAULT_SHARE * float(transfer_s.sum())
        return bucket_mib * _MIB / rate_bytes_per_s

    pull = _fill(costs.pull_s, limit_s(costs.pull_s))
    push = _fill(costs.push_s[::-1], limit_s(costs.push_s))
    from_last = [0, *push[:-1]]
    push_ends = [len(costs) - end for end in from_last[::-1]]
    return credits.plan(costs, lambda _: pull, push_ends, "bucketed", credit)


def _fill(transfer_s: np.ndarray, limit_s: float) -> list[int]:
    """How many layers have been sent at the end of each bucket."""
    ends, filled_s = [], 0.0
    for number, layer_s in enumerate(transfer_s.tolist()):
        if number and filled_s + layer_s > limit_s:
            ends.append(number)
            filled_s = 0.0
        filled_s += layer_s
    return [*ends, len(transfer_s)]
