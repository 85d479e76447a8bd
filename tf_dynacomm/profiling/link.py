"""What a link costs: a transfer takes the overhead Δt plus its bytes at the link's rate."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

_QUICK, _DOUBT = 0.25, 0.25


@dataclasses.dataclass(frozen=True)
class Link:
    """One direction of a worker's link.

    Attributes:
      overhead_s: Seconds that every transmission costs besides its bytes (Δt).
      rate_bytes_per_s: Bytes per second.
    """

    overhead_s: float
    rate_bytes_per_s: float

    def transfer_s(self, size_bytes: float | np.ndarray) -> float | np.ndarray:
        """Seconds that bytes take on the wire, without the overhead; arrays element by element."""
        return size_bytes / self.rate_bytes_per_s


def fit(size_bytes: Sequence[float], duration_s: Sequence[float]) -> Link | None:
    """Fits a link to measured transfers, robustly (Theil-Sen: the median of pairwise slopes).

    What delays a transfer only ever adds to its time, so that slopes are those of the lower
    quartiles of each size's durations, while overheads are medians. A size counts as often as
    there are transfers of it.

    A slope is weighted by the difference of sizes that it rests on, so that pairs of nearly equal
    sizes, whose slopes are noise, count for little. No difference counts for more than the middle
    one, so that one size far from all others cannot outvote them: of five sizes or more, each with
    as many transfers, one may be wrong.

    Where a quarter of the slopes or more say that bytes cost nothing, noise hides the rate: it is
    infinite then, and bytes are not told from overhead.

    Returns:
      The link, or `None` when the transfers are of fewer than two sizes.
    """
    sizes, quick_s, counts = _by_size(size_bytes, duration_s, _QUICK)
    if len(sizes) < 2:
        return None
    first, second = np.triu_indices(len(sizes), 1)
    gaps = sizes[second] - sizes[first]
    weights = np.minimum(gaps, np.median(gaps)) * counts[first] * counts[second]
    slopes = (quick_s[second] - quick_s[first]) / gaps
    doubtful, slope = (_quantile(slopes, weights, share) for share in (_DOUBT, 0.5))
    return of_rate(size_bytes, duration_s, 1 / slope if doubtful > 0 else np.inf)


def of_rate(
    size_bytes: Sequence[float], duration_s: Sequence[float], rate_bytes_per_s: float
) -> Link:
    """The link of a known rate: its overhead is the median of what transfers took besides."""
    sizes, medians_s, counts = _by_size(size_bytes, duration_s, 0.5)
    overhead_s = _quantile(medians_s - sizes / rate_bytes_per_s, counts, 0.5)
    return Link(max(overhead_s, 0.0), rate_bytes_per_s)


def least_rate(size_bytes: Sequence[float], duration_s: Sequence[float]) -> float:
    """The rate in bytes per second at which half of the bytes came, or faster, overhead and all."""
    sizes = np.asarray(size_bytes, float)
    per_byte_s = np.asarray(duration_s, float)[sizes > 0] / sizes[sizes > 0]
    half_s = _quantile(per_byte_s, sizes[sizes > 0], 0.5)
    return 1 / half_s if half_s > 0 else np.inf


def _by_size(size_bytes, duration_s, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes in ascending order; the quantile of each one's durations, and their number."""
    durations_s = collections.defaultdict(list)
    for size, seconds in zip(size_bytes, duration_s, strict=True):
        durations_s[float(size)].append(seconds)
    sizes = sorted(durations_s)
    quantiles_s = [np.quantile(durations_s[size], share) for size in sizes]
    return np.array(sizes), np.array(quantiles_s), np.array([len(durations_s[s]) for s in sizes])


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The least value that, with those below it, has `share` of the weight."""
    order = np.argsort(values)
    cumulated = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulated, share * cumulated[-1])])


def mean(links: Sequence[Link]) -> Link:
    """The link whose transfers take the mean of the links' times."""
    per_byte_s = np.mean([1 / link.rate_bytes_per_s for link in links])
    rate = 1 / per_byte_s if per_byte_s > 0 else np.inf
    return Link(float(np.mean([link.overhead_s for link in links])), float(rate))
