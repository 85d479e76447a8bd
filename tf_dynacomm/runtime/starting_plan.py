"""The plan that a step starts with, before anything has been measured."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tf_dynacomm import plan as plan_lib

_MAX_SEGMENTS = 16


def starting_plan(
    pull_bytes: Sequence[int], push_bytes: Sequence[int], names: Sequence[str]
) -> plan_lib.Plan:
    """Cuts pulls and pushes into at most 16 segments of about equal bytes.

    Nothing is known yet of the link or of the compute, so the plan is one that is never far off:
    with k equal segments a step waits for about 1/k of the transfer that it could have hidden, and
    pays k transmission overheads. It also carries transfers of several sizes, from which the first
    trace tells overhead and bandwidth apart.

    Args:
      pull_bytes: Bytes that each layer pulls, in forward order.
      push_bytes: Bytes that each layer pushes, in forward order; all zero for a step that trains
        nothing, which then has no push segments.
      names: The layers' names.
    """
    pull = _equal_segments(pull_bytes)
    push = _equal_segments(push_bytes)[::-1] if any(push_bytes) else ()
    return plan_lib.Plan(pull, push, names=tuple(names), scheduler="starting")


def _equal_segments(sizes_bytes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Segments (first, last) of layers 1..L that end near equal shares of the bytes.

    Layers that move nothing, such as frozen ones, go with the layers before them, or with the first
    that moves something; none of them makes a segment.
    """
    sizes = np.asarray(sizes_bytes)
    moving = np.flatnonzero(sizes)
    middle = np.cumsum(sizes) - sizes / 2
    count = min(_MAX_SEGMENTS, len(moving))
    share = (middle[moving] * count / max(sizes.sum(), 1)).astype(int)
    ends = [*moving[1:][np.diff(share) > 0], len(sizes)]
    return tuple((int(a) + 1, int(b)) for a, b in itertools.pairwise([0, *ends]))
