"""DynaComm's optimum by the paper's O(L³) recurrence: the readable reference.

With F[k][n] the earliest end of layer n's computation when n ends the k-th segment, the paper
(arXiv 2101.07968, section IV) has

    F[k][n] = min over m < n of max( F[k-1][m], k·Δt + PT(n) ) + FC(m, n).

Here FC(n) is taken off both sides, which leaves the time in which the worker has waited so far,

    I[k][n] = min over m < n of max( I[k-1][m], k·Δt + PT(n) - FC(m) ),

the same decision, in a form whose rounding does not depend on the order of the sums. The cost of
applying gradients is no part of the recurrence, nor is a credit of more than one segment: where
there are such, the plan is the one that would be best without them.
"""

from __future__ import annotations

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import credits, segments


def schedule(costs: costs_lib.LayerCosts, credit: int | None = 1) -> plan_lib.Plan:
    """The plan of the least makespan, forward and backward; of equals, that of fewest segments."""
    pull = best_ends(costs.pull_s, costs.forward_s, costs.overhead_pull_s)
    push = best_ends(costs.push_s, costs.backward_s, costs.overhead_push_s)
    return credits.plan(costs, lambda _: pull, push, "dynacomm_dp", credit)


def best_ends(transfer_s: np.ndarray, compute_s: np.ndarray, overhead_s: float) -> list[int]:
    """The layers at which the segments of the best decision end.

    Args:
      transfer_s: Seconds of each layer on the link; shape (L,).
      compute_s: Seconds of each layer's computation; shape (L,).
      overhead_s: Δt.
    """
    last = len(transfer_s)
    sent, computed = segments.prefix_sums(transfer_s), segments.prefix_sums(compute_s)
    idle = [[0.0] + [float("inf")] * last]
    ends_before: list[list[int]] = [[]]
    for k in range(1, last + 1):
        idle.append([float("inf")] * (last + 1))
        ends_before.append([0] * (last + 1))
        for n in range(k, last + 1):
            arrival = k * overhead_s + sent[n]
            idle[k][n], ends_before[k][n] = min(
                (max(idle[k - 1][m], arrival - computed[m]), m) for m in range(k - 1, n)
            )
    count = min(range(1, last + 1), key=lambda k: idle[k][last])
    return _trace_back(ends_before, count)


def _trace_back(ends_before: list[list[int]], count: int) -> list[int]:
    ends = [len(ends_before) - 1]
    for k in range(count, 1, -1):
        ends.append(ends_before[k][ends[-1]])
    return ends[::-1]
