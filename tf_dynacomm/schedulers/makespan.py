"""What a decision costs: the one place in which schedulers and timelines value it.

Each value is computed in one order of operations, so that those of two decisions, or of one
decision in two places, can be compared to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm.schedulers import apply_stage, link, segments


def forward_s(costs: costs_lib.LayerCosts, ends: Sequence[int], credit: int = 1) -> float:
    """Seconds from the first request to the end of layer L's forward computation.

    Args:
      costs: The step's costs.
      ends: The layers at which pull segments end, in forward order; the last is L.
      credit: How many segments may be in flight; with more than one, by the model of `link`.
    """
    waited_s = idle_s(ends, costs.pull_s, costs.forward_s, costs.overhead_pull_s, credit)
    return segments.prefix_sums(costs.forward_s)[-1] + waited_s


def backward_s(costs: costs_lib.LayerCosts, ends: Sequence[int]) -> float:
    """Seconds from the begin of layer L's backward computation to the end of the step.

    The step ends with the arrival of the last push or, where that costs time, its application.

    Args:
      costs: The step's costs.
      ends: The layers at which push segments end, in forward order; the last is L.
    """
    if costs.apply_s.any():
        return apply_stage.Pushes(costs).makespan_s(ends)
    waited_s = idle_s(ends, costs.push_s, costs.backward_s, costs.overhead_push_s)
    return segments.prefix_sums(costs.backward_s)[-1] + waited_s


def idle_s(
    ends: Sequence[int],
    transfer_s: np.ndarray,
    compute_s: np.ndarray,
    overhead_s: float,
    credit: int = 1,
) -> float:
    """Time in which the worker waits under a decision (min-max form).

    When segment j has arrived, everything before it has been computed FC(b_{j-1}) after the waits
    so far. The waits are the largest difference of the two times.

    Args:
      ends: b_1 < … < b_k = L.
      transfer_s: Seconds of each layer on the link; shape (L,).
      compute_s: Seconds of each layer's computation; shape (L,).
      overhead_s: Δt.
      credit: How many segments may be in flight.
    """
    computed = segments.prefix_sums(compute_s)
    arrivals_s = link.arrivals_s(ends, transfer_s, overhead_s, credit)
    return max(
        arrival_s - computed[before]
        for arrival_s, before in zip(arrivals_s, [0, *ends][:-1], strict=True)
    )
