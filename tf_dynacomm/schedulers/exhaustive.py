"""Exhaustive search: all 2^(L-1) decisions, what every other scheduler is checked against."""

from __future__ import annotations

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import apply_stage, credits, makespan, segments

MAX_LAYERS = 16
"""The most layers for which all decisions are tried."""


def schedule(costs: costs_lib.LayerCosts, credit: int | None = 1) -> plan_lib.Plan:
    """The plan of the least makespan, forward and backward; of equals, that of fewest segments.

    Raises:
      ValueError: If there are more than `MAX_LAYERS` layers.
    """
    if len(costs) > MAX_LAYERS:
        raise ValueError(
            f"`costs` ({len(costs)} layers) must have at most {MAX_LAYERS} layers for exhaustive "
            "search: use the scheduler dynacomm, which finds the same optimum."
        )
    push = best_push_ends(costs)
    return credits.plan(
        costs, lambda number: best_pull_ends(costs, number), push, "exhaustive", credit
    )


def best_pull_ends(costs: costs_lib.LayerCosts, credit: int = 1) -> list[int]:
    """The layers at which the pull segments of the best decision end."""
    if credit == 1:
        return best_ends(costs.pull_s, costs.forward_s, costs.overhead_pull_s)
    cuts = _all_cuts(len(costs))
    decisions = [_ends(cuts[:, column]) for column in range(cuts.shape[1])]
    return min(decisions, key=lambda ends: (makespan.forward_s(costs, ends, credit), len(ends)))


def best_push_ends(costs: costs_lib.LayerCosts) -> list[int]:
    """The layers at which the push segments of the best decision end."""
    if not costs.apply_s.any():
        return best_ends(costs.push_s, costs.backward_s, costs.overhead_push_s)
    cuts = _all_cuts(len(costs))
    return _best(cuts, _applied_s(cuts, apply_stage.Pushes(costs)))


def best_ends(transfer_s: np.ndarray, compute_s: np.ndarray, overhead_s: float) -> list[int]:
    """The layers at which the segments of the best decision end.

    Args:
      transfer_s: Seconds of each layer on the link; shape (L,).
      compute_s: Seconds of each layer's computation; shape (L,).
      overhead_s: Δt.
    """
    cuts = _all_cuts(len(transfer_s))
    return _best(cuts, _idle_s(cuts, transfer_s, compute_s, overhead_s))


def _best(cuts: np.ndarray, value_s: np.ndarray) -> list[int]:
    return _ends(cuts[:, np.lexsort([cuts.sum(axis=0), value_s])[0]])


def _ends(cuts: np.ndarray) -> list[int]:
    return (np.flatnonzero(cuts) + 1).tolist()


def _all_cuts(num_layers: int) -> np.ndarray:
    """Every decision as a column: whether a segment ends at each layer; shape (L, 2^(L-1))."""
    layers = np.arange(num_layers - 1)[:, np.newaxis]
    inner = np.arange(2 ** (num_layers - 1)) >> layers & 1
    return np.vstack([inner, np.ones_like(inner, shape=(1, inner.shape[1]))]).astype(bool)


def _idle_s(
    cuts: np.ndarray, transfer_s: np.ndarray, compute_s: np.ndarray, overhead_s: float
) -> np.ndarray:
    """`makespan.idle_s` of every decision; shape (2^(L-1),)."""
    sent, computed = segments.prefix_sums(transfer_s), segments.prefix_sums(compute_s)
    idle_s, before = np.full(cuts.shape[1], -np.inf), np.zeros(cuts.shape[1])
    for number, ends_here, sent_s, computed_s in zip(
        cuts.cumsum(axis=0), cuts, sent[1:], computed[1:], strict=True
    ):
        wait_s = (number * overhead_s + sent_s) - before
        idle_s = np.where(ends_here, np.maximum(idle_s, wait_s), idle_s)
        before = np.where(ends_here, computed_s, before)
    return idle_s


def _applied_s(cuts: np.ndarray, pushes: apply_stage.Pushes) -> np.ndarray:
    """`apply_stage.Pushes.makespan_s` of every decision; shape (2^(L-1),)."""
    arrival_s, end_s = np.zeros((2, cuts.shape[1]))
    last = np.full(cuts.shape[1], len(cuts))
    for until in reversed(range(len(cuts))):
        sent_here = cuts[until - 1] if until else True
        after_s = pushes.arrival_s(arrival_s, last, until)
        end_s = np.where(sent_here, np.maximum(end_s, pushes.end_s(after_s, last)), end_s)
        arrival_s = np.where(sent_here, after_s, arrival_s)
        last = np.where(sent_here, until, last)
    return end_s
