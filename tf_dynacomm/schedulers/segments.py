"""Segments from cuts, and the time that a decision costs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib


def forward(ends: Sequence[int]) -> tuple[plan_lib.Segment, ...]:
    """Segments 1..L that end at the layers `ends`, in forward order.

    >>> forward([2, 3, 8])
    ((1, 2), (3, 3), (4, 8))
    """
    return tuple((int(a) + 1, int(b)) for a, b in itertools.pairwise([0, *ends]))


def backward(ends: Sequence[int]) -> tuple[plan_lib.Segment, ...]:
    """The same segments in the order in which gradients become ready, L..1."""
    return forward(ends)[::-1]


def plan(
    costs: costs_lib.LayerCosts,
    pull_ends: Sequence[int],
    push_ends: Sequence[int],
    scheduler: str,
    credit: int,
) -> plan_lib.Plan:
    """The plan whose pull and push segments end at the given layers, both in forward order."""
    return plan_lib.Plan(
        forward(pull_ends),
        backward(push_ends),
        credit=credit,
        names=costs.names,
        scheduler=scheduler,
    )


def prefix_sums(values: np.ndarray) -> list[float]:
    """Sums of the first 0, 1, …, L values."""
    return [0.0, *np.cumsum(values).tolist()]


def idle_s(
    ends: Sequence[int], transfer_s: np.ndarray, compute_s: np.ndarray, overhead_s: float
) -> float:
    """Time in which the worker waits under a decision (min-max form).

    Segment j, which ends at layer b_j, has arrived at j·Δt + PT(b_j); everything before it is
    computed FC(b_{j-1}) after the waits so far. The waits are the largest difference of the two.

    Args:
      ends: b_1 < … < b_k = L.
      transfer_s: Seconds of each layer on the link; shape (L,).
      compute_s: Seconds of each layer's computation; shape (L,).
      overhead_s: Δt.
    """
    sent, computed = prefix_sums(transfer_s), prefix_sums(compute_s)
    return max(
        (j * overhead_s + sent[b]) - computed[a]
        for j, (a, b) in enumerate(itertools.pairwise([0, *ends]), start=1)
    )
