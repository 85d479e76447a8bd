"""DynaComm's optimum, exactly and in near-linear time.

The paper (arXiv 2101.07968, section IV) finds the optimal decision with an O(L³) recurrence. The
same optimum follows from the min-max form of the makespan,

    makespan = FC(L) + max_j ( j·Δt + PT(b_j) − FC(b_{j−1}) ),

whose second term is the time I in which the worker waits. For a given I, taking each segment as far
as j·Δt + PT(b_j) ≤ I + FC(b_{j−1}) allows is never worse than stopping earlier, and uses the fewest
segments; so one pass tells whether I can be kept. A search over I ends on the optimum itself: the
wait of each decision that is found is the next upper bound, until nothing strictly better exists.
Rounding is monotone, so that the argument holds for the floating-point values as for the real ones.

Backward is forward played backwards: the reversed gradients' schedule is a forward schedule with
(push, backward) for (pull, forward) in the same layer order.
"""

from __future__ import annotations

import bisect

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import segments


def schedule(costs: costs_lib.LayerCosts) -> plan_lib.Plan:
    """The plan of the least makespan, forward and backward; of equals, that of fewest segments."""
    pull = best_ends(costs.pull_s, costs.forward_s, costs.overhead_pull_s)
    push = best_ends(costs.push_s, costs.backward_s, costs.overhead_push_s)
    return plan_lib.Plan(
        segments.forward(pull), segments.backward(push), names=costs.names, scheduler="dynacomm"
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
        return segments.idle_s(ends, transfer_s, compute_s, overhead_s)

    best = [len(transfer_s)]
    high, low = value(best), 0.0
    while True:
        middle = low + (high - low) / 2
        ends = _within(middle, sent, computed, overhead_s) if low < middle < high else None
        if ends is None and low < middle < high:
            low = middle
            continue
        if ends is None:
            ends = _within(np.nextafter(high, -np.inf), sent, computed, overhead_s)
            if ends is None:
                return _within(high, sent, computed, overhead_s)
        high = value(ends)


def _within(
    idle_s: float, sent: list[float], computed: list[float], overhead_s: float
) -> list[int] | None:
    """The fewest segments whose waits are at most `idle_s`; `None` if there are none."""
    last = len(sent) - 1
    ends: list[int] = []
    start, number = 0, 0
    while start < last:
        number += 1
        overhead = number * overhead_s

        def wait(end: int, overhead=overhead, start=start) -> float:
            return (overhead + sent[end]) - computed[start]

        end = bisect.bisect_right(range(last + 1), idle_s, lo=start + 1, key=wait) - 1
        if end <= start:
            return None
        ends.append(end)
        start = end
    return ends
