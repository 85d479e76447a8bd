"""Pushes that the PS also has to apply: a flow shop of three stages, solved exactly.

A segment of gradients is computed, sent and then applied; the link and the PS each serve one
segment at a time, in order. With S_j the arrival of the j-th segment sent and AT the prefix sums of
the costs of applying,

    S_j = max(S_{j-1}, its gradients are ready) + Δt + its push time,
    makespan = max_j ( S_j + AT(last layer of j) ),

because the PS, once a segment has arrived, has all layers up to its last one still to apply. So for
a given makespan only the earliest S at each layer matters, and one pass of O(L²) tells whether that
makespan can be kept. The search over makespans ends on the optimum itself, as that of `dynacomm`
does; `Pushes` is the one place where times are added, and its rounding is monotone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm.schedulers import segments


class Pushes:
    """When pushed segments arrive and are applied.

    Layers are counted from the end of the step: at n, the layers above n have been sent.

    Args:
      costs: The step's costs.
    """

    def __init__(self, costs: costs_lib.LayerCosts):
        computed, self._sent, self._applied = (
            np.array(segments.prefix_sums(layer_s))
            for layer_s in (costs.backward_s, costs.push_s, costs.apply_s)
        )
        self.num_layers = len(costs)
        self._ready_s = computed[-1] - computed
        self._overhead_s = costs.overhead_push_s

    def arrival_s(self, free_s, last, until):
        """When layers `last` down to `until` + 1 have arrived, if the link is free at `free_s`."""
        transfer_s = self._overhead_s + (self._sent[last] - self._sent[until])
        return np.maximum(free_s, self._ready_s[until]) + transfer_s

    def end_s(self, arrival_s, last):
        """The earliest end of a step in which a segment that begins with `last` arrives then."""
        return arrival_s + self._applied[last]

    def makespan_s(self, ends: Sequence[int]) -> float:
        """Seconds of the backward phase, to the end of the last application.

        Args:
          ends: The layers at which segments end, in forward order; the last is L.
        """
        arrival_s = makespan_s = 0.0
        for last, until in itertools.pairwise([*reversed(ends), 0]):
            arrival_s = self.arrival_s(arrival_s, last, until)
            makespan_s = max(makespan_s, self.end_s(arrival_s, last))
        return float(makespan_s)


def best_ends(costs: costs_lib.LayerCosts, start: Sequence[int]) -> list[int]:
    """The layers at which the push segments of the best decision end; fewest segments of equals.

    Args:
      costs: The step's costs.
      start: Any decision; a good one saves time.
    """
    pushes = Pushes(costs)
    low, high = 0.0, pushes.makespan_s(start)
    while low < high:  # No decision is better than `low`; one is as good as `high`.
        middle = low + (high - low) / 2
        ends, exceeded_s = _within(middle if middle < high else low, pushes)
        if ends is None:
            low = exceeded_s
        else:
            high = pushes.makespan_s(ends)
    return _fewest_within(high, pushes)


def _within(makespan_s: float, pushes: Pushes) -> tuple[list[int] | None, float]:
    """A decision that ends by `makespan_s`, or `None` if there is none.

    Besides, the least end that was avoided: below it, more time changes nothing.
    """
    arrivals_s = np.full(pushes.num_layers + 1, np.inf)
    arrivals_s[-1] = 0.0
    best_last = np.zeros(pushes.num_layers, int)
    exceeded_s = np.inf
    for until in reversed(range(pushes.num_layers)):
        last = np.arange(until + 1, pushes.num_layers + 1)
        candidates_s = pushes.arrival_s(arrivals_s[last], last, until)
        ends_s = pushes.end_s(candidates_s, last)
        late = ends_s > makespan_s
        exceeded_s = min(exceeded_s, ends_s[late].min(initial=np.inf))
        candidates_s[late] = np.inf
        best = candidates_s.argmin()
        arrivals_s[until], best_last[until] = candidates_s[best], last[best]
    if arrivals_s[0] == np.inf:
        return None, exceeded_s
    return _trace_back([best_last] * pushes.num_layers), exceeded_s


def _fewest_within(makespan_s: float, pushes: Pushes) -> list[int]:
    """Of the decisions that end by `makespan_s`, one of the fewest segments."""
    last, until = np.arange(pushes.num_layers + 1), np.arange(pushes.num_layers)[:, np.newaxis]
    arrivals_s = np.full(pushes.num_layers + 1, np.inf)
    arrivals_s[-1] = 0.0
    best_last = []
    while arrivals_s[0] == np.inf:  # One segment more each time.
        candidates_s = pushes.arrival_s(arrivals_s, last, until)
        late = pushes.end_s(candidates_s, last) > makespan_s
        candidates_s[late | (last <= until)] = np.inf
        best_last.append(candidates_s.argmin(axis=1))
        arrivals_s = np.append(candidates_s.min(axis=1), np.inf)
    return _trace_back(best_last[::-1])


def _trace_back(best_last: Sequence[np.ndarray]) -> list[int]:
    """The ends of a decision, given the best last layer of the segment above each layer."""
    ends = [0]
    for choices in best_last:
        ends.append(int(choices[ends[-1]]))
        if ends[-1] == len(choices):
            break
    return ends[1:]
