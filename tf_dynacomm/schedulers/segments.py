"""Segments from the layers at which they end, and sums over layers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

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


def prefix_sums(values: np.ndarray) -> list[float]:
    """Sums of the first 0, 1, …, L values."""
    return [0.0, *np.cumsum(values).tolist()]
