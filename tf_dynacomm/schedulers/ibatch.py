"""iBatch (Wang et al., AAAI 2019), the greedy method that the DynaComm paper compares with.

Its listings were not at hand; this is a reading of what the two papers tell in words.

*Pulls.* Two passes, of which the better is used. The first begins with layer 1 as a segment. The
next segment takes as many layers as can be transferred, overhead included, while the segment before
it is computed, and one at least. The second pass begins with layer L and goes the opposite way, by
the same rule: the next segment, which lies before the current one, takes as many layers as can be
transferred in the time that the current one computes.

*Pushes.* One pass from layer L down. The next segment takes as many layers as can be computed while
the current one is transferred, and one at least. Each choice of the first segment gives a
candidate, and the best one is used.

Credit and the cost of applying gradients play no part in the passes, but in the choice among their
results.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import credits, makespan, segments


def schedule(costs: costs_lib.LayerCosts, credit: int | None = 1) -> plan_lib.Plan:
    """The best of the greedy passes' plans.

    Args:
      costs: The step's costs.
      credit: How many pull segments may be in flight; the best number if `None`.
    """
    return credits.plan(
        costs, lambda number: pull_ends(costs, number), push_ends(costs), "ibatch", credit
    )


def pull_ends(costs: costs_lib.LayerCosts, credit: int = 1) -> list[int]:
    """The layers at which pull segments end."""
    sent, computed = segments.prefix_sums(costs.pull_s), segments.prefix_sums(costs.forward_s)
    candidates = [
        one_pass(sent, computed, costs.overhead_pull_s)
        for one_pass in (_pulls_from_first, _pulls_from_last)
    ]
    return min(candidates, key=lambda ends: (makespan.forward_s(costs, ends, credit), len(ends)))


def push_ends(costs: costs_lib.LayerCosts) -> list[int]:
    """The layers at which push segments end, in forward order."""
    sent, computed = segments.prefix_sums(costs.push_s), segments.prefix_sums(costs.backward_s)
    candidates = [
        _pushes(sent, computed, costs.overhead_push_s, until) for until in range(len(costs))
    ]
    return min(candidates, key=lambda ends: (makespan.backward_s(costs, ends), len(ends)))


def _pulls_from_first(
    sent: Sequence[float], computed: Sequence[float], overhead_s: float
) -> list[int]:
    num_layers = len(sent) - 1
    ends = [0, 1]
    while ends[-1] < num_layers:
        compute_s = computed[ends[-1]] - computed[ends[-2]]
        fits = bisect.bisect_right(sent, sent[ends[-1]] + (compute_s - overhead_s)) - 1
        ends.append(max(fits, ends[-1] + 1))
    return ends[1:]


def _pulls_from_last(
    sent: Sequence[float], computed: Sequence[float], overhead_s: float
) -> list[int]:
    num_layers = len(sent) - 1
    ends = [num_layers, num_layers - 1]
    while ends[-1] > 0:
        compute_s = computed[ends[-2]] - computed[ends[-1]]
        fits = bisect.bisect_left(sent, sent[ends[-1]] - (compute_s - overhead_s))
        ends.append(min(fits, ends[-1] - 1))
    return ends[-2::-1]


def _pushes(
    sent: Sequence[float], computed: Sequence[float], overhead_s: float, until: int
) -> list[int]:
    """The pass whose first segment is the layers above `until`."""
    ends = [len(sent) - 1, until]
    while ends[-1] > 0:
        transfer_s = overhead_s + (sent[ends[-2]] - sent[ends[-1]])
        fits = bisect.bisect_left(computed, computed[ends[-1]] - transfer_s)
        ends.append(min(fits, ends[-1] - 1))
    return ends[-2::-1]
