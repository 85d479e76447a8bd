"""When the segments of a pull arrive.

With one segment in flight (credit 1, and the paper's case) segment j, which ends at layer b_j, has
arrived at j·Δt + PT(b_j): exact. With more in flight the times are those of a model:

- A segment is asked for when the segment `credit` places before it has arrived, and its first byte
  comes Δt later. All of Δt is taken for waiting, which other segments' bytes can fill.
- Segments whose bytes have begun to come share the link equally.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np

from tf_dynacomm.schedulers import segments


def arrivals_s(
    ends: Sequence[int], transfer_s: np.ndarray, overhead_s: float, credit: int = 1
) -> list[float]:
    """When each segment has arrived, in seconds from the first request.

    >>> arrivals_s([1, 2, 3], [1.0, 1.0, 1.0], 0.5)
    [1.5, 3.0, 4.5]
    >>> arrivals_s([1, 2, 3], [1.0, 1.0, 1.0], 0.5, credit=2)
    [2.5, 2.5, 4.0]

    Args:
      ends: The layers at which segments end, in forward order; the last is L.
      transfer_s: Seconds of each layer on the link; shape (L,).
      overhead_s: Δt.
      credit: How many segments may be in flight.
    """
    sent = segments.prefix_sums(transfer_s)
    if credit == 1:
        return [number * overhead_s + sent[end] for number, end in enumerate(ends, start=1)]
    segments_s = [sent[last] - sent[before] for before, last in itertools.pairwise([0, *ends])]
    return _shared_arrivals_s(segments_s, overhead_s, credit)


def _shared_arrivals_s(segments_s: Sequence[float], overhead_s: float, credit: int) -> list[float]:
    """Plays the model, from one event to the next: a segment's bytes begin, or end, to come."""
    arrivals_s = [math.inf] * len(segments_s)
    begins = [(overhead_s, number) for number in range(len(segments_s))[:credit]]
    left_s: dict[int, float] = {}  # What is left of the segments that share the link.
    now_s = 0.0
    while begins or left_s:
        first = min(left_s, key=left_s.get, default=None)
        end_s = math.inf if first is None else now_s + left_s[first] * len(left_s)
        if begins and begins[0][0] <= end_s:
            begin_s, number = heapq.heappop(begins)
            served_s = (begin_s - now_s) / max(len(left_s), 1)
            now_s = begin_s
            left_s = {other: max(rest_s - served_s, 0.0) for other, rest_s in left_s.items()}
            left_s[number] = segments_s[number]
        else:
            served_s = left_s.pop(first)
            now_s = arrivals_s[first] = end_s
            left_s = {other: rest_s - served_s for other, rest_s in left_s.items()}
            if first + credit < len(segments_s):
                heapq.heappush(begins, (now_s + overhead_s, first + credit))
    return arrivals_s
