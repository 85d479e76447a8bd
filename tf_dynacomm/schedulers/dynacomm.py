"""DynaComm's optimum, exactly and in near-linear time.

The paper (arXiv 2101.07968, section IV) finds the optimal decision with an O(L³) recurrence. The
same optimum follows from the min-max form of the makespan,

    makespan = FC(L) + max_j ( j·Δt + PT(b_j) - FC(b_{j-1}) ),

whose second term is the time I in which the worker waits. For a given I, taking each segment as far
as j·Δt + PT(b_j) ≤ I + FC(b_{j-1}) allows is never worse than stopping earlier, and uses the fewest
segments; so one pass tells whether I can be kept. A search over I ends on the optimum itself: the
wait of each decision that is found is the next upper bound, and where I cannot be kept, the least
wait at which the pass would have gone otherwise is the next lower one, until the two meet. Rounding
is monotone, so that the argument holds for the floating-point values as for the real ones.

Backward is forward played backwards: the reversed gradients' schedule is a forward schedule with
(push, backward) for (pull, forward) in the same layer order. Where the PS takes time to apply the
gradients, `apply_stage` searches in the same way.
"""

from __future__ import annotations

import bisect
import math

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import apply_stage, credits, makespan, segments

_OVERHEAD_SHARES = (0, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)


def schedule(costs: costs_lib.LayerCosts, credit: int | None = 1) -> plan_lib.Plan:
    """The plan of the least makespan, forward and backward; of equals, that of fewest segments.

    Exact, but for pulls with a credit of more than one (see `credits`).

    Args:
      costs: The step's costs.
      credit: How many pull segments may be in flight; the best number if `None`.
    """
    push = best_ends(costs.push_s, costs.backward_s, costs.overhead_push_s)
    if costs.apply_s.any():
        push = apply_stage.best_ends(costs, start=push)
    return credits.plan(costs, lambda number: _pull_ends(costs, number), push, "dynacomm", credit)


def _pull_ends(costs: costs_lib.LayerCosts, credit: int) -> list[int]:
    if credit == 1:
        return best_ends(costs.pull_s, costs.forward_s, costs.overhead_pull_s)
    # Cuts for another overhead lie near the best ones: how much of it is hidden, only trying tells.
    starts = {(len(costs),)}
    for share in _OVERHEAD_SHARES:
        ends = best_ends(costs.pull_s, costs.forward_s, share * costs.overhead_pull_s)
        starts.add(tuple(ends))
    return credits.best_ends(
        sorted(starts), costs.pull_s, costs.forward_s, costs.overhead_pull_s, credit
    )


def best_ends(transfer_s: np.ndarray, compute_s: np.ndarray, overhead_s: float) -> list[int]:
    """The layers at which the segments of the best decision end.

    Args:
      transfer_s: Seconds of each layer on the link; shape (L,).
      compute_s: Seconds of each layer's computation; shape (L,).
      overhead_s: Δt.
    """
    sent, computed = segments.prefix_sums(transfer_s), segments.prefix_sums(compute_s)

    def value(ends: list[int]) -> float:
        return makespan.idle_s(ends, transfer_s, compute_s, overhead_s)

    best = [len(transfer_s)]
    low, high = 0.0, value(best)
    while low < high:  # No decision is better than `low`; `best` is one of `high`.
        middle = low + (high - low) / 2
        ends, exceeded_s = _within(middle if middle < high else low, sent, computed, overhead_s)
        if ends is None:
            low = exceeded_s
        else:
            best, high = ends, value(ends)
    return best


def _within(
    idle_s: float, sent: list[float], computed: list[float], overhead_s: float
) -> tuple[list[int] | None, float]:
    """The fewest segments whose waits are at most `idle_s`, or `None` if there are none.

    Besides, the least wait that was avoided: below it, more waiting changes nothing.
    """
    last = len(sent) - 1
    ends: list[int] = [0]
    exceeded_s = math.inf
    for number in range(1, last + 1):
        overhead, start = number * overhead_s, ends[-1]

        def wait_s(end: int, overhead=overhead, start=start) -> float:
            return (overhead + sent[end]) - computed[start]

        end = bisect.bisect_right(range(last + 1), idle_s, lo=start + 1, key=wait_s) - 1
        if end == last:
            return [*ends[1:], last], exceeded_s
        exceeded_s = min(exceeded_s, wait_s(end + 1))
        if end == start:
            return None, exceeded_s
        ends.append(end)
    return None, exceeded_s
