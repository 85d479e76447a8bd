"""Exhaustive search: all 2^(L-1) decisions, what every other scheduler is checked against."""

from __future__ import annotations

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import segments

MAX_LAYERS = 16
"""The most layers for which all decisions are tried."""


def schedule(costs: costs_lib.LayerCosts, credit: int = 1) -> plan_lib.Plan:
    """The plan of the least makespan, forward and backward; of equals, that of fewest segments.

    Raises:
      ValueError: If there are more than `MAX_LAYERS` layers.
    """
    if len(costs) > MAX_LAYERS:
        raise ValueError(
            f"`costs` ({len(costs)} layers) must have at most {MAX_LAYERS} layers for exhaustive "
            "search: use the scheduler dynacomm, which finds the same optimum."
        )
    pull = best_ends(costs.pull_s, costs.forward_s, costs.overhead_pull_s)
    push = best_ends(costs.push_s, costs.backward_s, costs.overhead_push_s)
    return segments.plan(costs, pull, push, "exhaustive", credit)


def best_ends(transfer_s: np.ndarray, compute_s: np.ndarray, overhead_s: float) -> list[int]:
    """The layers at which the segments of the best decision end.

    Args:
      transfer_s: Seconds of each layer on the link; shape (L,).
      compute_s: Seconds of each layer's computation; shape (L,).
      overhead_s: Δt.
    """
    cuts = _all_cuts(len(transfer_s))
    idle_s = _idle_s(cuts, transfer_s, compute_s, overhead_s)
    best = np.lexsort([cuts.sum(axis=0), idle_s])[0]
    return (np.flatnonzero(cuts[:, best]) + 1).tolist()


def _all_cuts(num_layers: int) -> np.ndarray:
    """Every decision as a column: whether a segment ends at each layer; shape (L, 2^(L-1))."""
    layers = np.arange(num_layers - 1)[:, np.newaxis]
    inner = np.arange(2 ** (num_layers - 1)) >> layers & 1
    return np.vstack([inner, np.ones_like(inner, shape=(1, inner.shape[1]))]).astype(bool)


def _idle_s(
    cuts: np.ndarray, transfer_s: np.ndarray, compute_s: np.ndarray, overhead_s: float
) -> np.ndarray:
    """`segments.idle_s` of every decision; shape (2^(L-1),)."""
    sent, computed = segments.prefix_sums(transfer_s), segments.prefix_sums(compute_s)
    idle_s, before = np.full(cuts.shape[1], -np.inf), np.zeros(cuts.shape[1])
    for number, ends_here, sent_s, computed_s in zip(
        cuts.cumsum(axis=0), cuts, sent[1:], computed[1:], strict=True
    ):
        wait_s = (number * overhead_s + sent_s) - before
        idle_s = np.where(ends_here, np.maximum(idle_s, wait_s), idle_s)
        before = np.where(ends_here, computed_s, before)
    return idle_s
