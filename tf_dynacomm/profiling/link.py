"""What a link costs: a transfer takes the overhead Δt plus its bytes at the link's rate."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Link:
    """One direction of a worker's link.

    Attributes:
      overhead_s: Seconds that every transmission costs besides its bytes (Δt).
      rate_bytes_per_s: Bytes per second.
    """

    overhead_s: float
    rate_bytes_per_s: float

    def transfer_s(self, size_bytes: float) -> float:
        """Seconds that `size_bytes` take on the wire, without the overhead."""
        return size_bytes / self.rate_bytes_per_s


def fit(size_bytes: Sequence[int], duration_s: Sequence[float]) -> Link | None:
    """Fits a link to measured transfers, robustly (Theil-Sen: the median of pairwise slopes).

    A slope is weighted by the difference of sizes that it rests on, so that pairs of nearly equal
    sizes, whose slopes are noise, count for little. No weight is greater than the middle one, so
    that one size far from all others cannot outvote them: of five sizes or more, one may be wrong.

    Returns:
      The link, or `None` when the transfers are of fewer than two sizes.
    """
    sizes = np.asarray(size_bytes, float)
    durations = np.asarray(duration_s, float)
    pairs = [
        (i, j) for i, j in itertools.combinations(range(len(sizes)), 2) if sizes[i] != sizes[j]
    ]
    if not pairs:
        return None
    first, second = np.array(pairs).T
    gaps = sizes[second] - sizes[first]
    weights = np.minimum(np.abs(gaps), np.median(np.abs(gaps)))
    slope = _weighted_median((durations[second] - durations[first]) / gaps, weights)
    slope = max(slope, 0.0)
    overhead_s = max(float(np.median(durations - slope * sizes)), 0.0)
    return Link(overhead_s, 1 / slope if slope > 0 else np.inf)


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    cumulated = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulated, cumulated[-1] / 2)])


def mean(links: Sequence[Link]) -> Link:
    """The link whose transfers take the mean of the links' times."""
    per_byte_s = np.mean([1 / link.rate_bytes_per_s for link in links])
    rate = 1 / per_byte_s if per_byte_s > 0 else np.inf
    return Link(float(np.mean([link.overhead_s for link in links])), float(rate))
