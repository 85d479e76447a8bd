"""Smooths what is measured of a worker over the epochs, so that plans follow changes, not noise.

Every cost and both links are replaced by the median of the last three measurements, so that one
that is a little off never shows. A link or a computation that has become faster or slower by half
is no noise but another link, or another machine: what was measured before does not count any more.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm.profiling import link, measure

_REMEMBERED = 3
_CHANGED = 1.5
_VECTORS = ("pull_s", "forward_s", "backward_s", "push_s", "apply_s")


class Smoother:
    """Smooths the measurements of one worker.

    A measurement of other layers than before, or under other conditions, starts anew.
    """

    def __init__(self):
        self._latest: collections.deque[measure.Measurement] = collections.deque(maxlen=_REMEMBERED)

    def update(self, measurement: measure.Measurement) -> measure.Measurement:
        """Takes in a measurement; returns it with its costs and links smoothed.

        What tells of the trace itself, such as the span of its steps, stays as measured.
        """
        if self._latest and _are_other_conditions(self._latest[-1], measurement):
            self._latest.clear()
        self._latest.append(measurement)
        return dataclasses.replace(
            measurement,
            costs=_costs([m.costs for m in self._latest]),
            down=_link([m.down for m in self._latest]),
            up=_link([m.up for m in self._latest]),
        )


def _are_other_conditions(before: measure.Measurement, now: measure.Measurement) -> bool:
    if before.costs.names != now.costs.names:
        return True
    then, since = _pace(before), _pace(now)
    return any(max(a, b) > _CHANGED * min(a, b) for a, b in zip(then, since, strict=True))


def _pace(measurement: measure.Measurement) -> tuple[float, float, float]:
    """Seconds that it takes to pull, to compute and to push all layers."""
    costs = measurement.costs
    compute_s = costs.forward_s.sum() + costs.backward_s.sum()
    return float(costs.pull_s.sum()), float(compute_s), float(costs.push_s.sum())


def _costs(costs: Sequence[costs_lib.LayerCosts]) -> costs_lib.LayerCosts:
    return costs_lib.LayerCosts(
        **{name: np.median([getattr(c, name) for c in costs], axis=0) for name in _VECTORS},
        overhead_s=np.median([c.overhead_s for c in costs], axis=0),
        names=costs[-1].names,
    )


def _link(links: Sequence[link.Link]) -> link.Link:
    """The median in seconds per byte, as layers' transfer times are taken."""
    per_byte_s = float(np.median([1 / each.rate_bytes_per_s for each in links]))
    rate = 1 / per_byte_s if per_byte_s > 0 else np.inf
    return link.Link(float(np.median([each.overhead_s for each in links])), rate)
