"""`simulate`: what runs when in a step, given its costs and a plan.

>>> from tf_dynacomm import LayerCosts, Plan, timeline
>>> costs = LayerCosts([3, 1], [2, 2], [4, 2], [3, 1], overhead_s=0.5)
>>> step = timeline.simulate(costs, Plan([(1, 1), (2, 2)], [(1, 2)]))
>>> step.forward_s, step.backward_s, step.iteration_s
(7.5, 10.5, 18.0)
>>> step.forward.portions
Portions(computation_s=2.5, overlap_s=1.5, communication_s=3.5)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import link, makespan, segments


@dataclasses.dataclass(frozen=True)
class Span:
    """What happens with the layers `first` to `last` from `start_s` to `end_s`.

    Attributes:
      start_s: Seconds from the begin of the step.
      end_s: Seconds from the begin of the step.
      first: The first layer, 1-based.
      last: The last layer, inclusive.
    """

    start_s: float
    end_s: float
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Portions:
    """How a time divides (DynaComm, arXiv 2101.07968, section V).

    Attributes:
      computation_s: Seconds in which the worker computes and nothing is transferred.
      overlap_s: Seconds in which it computes while there is a transfer.
      communication_s: Seconds in which it waits.
    """

    computation_s: float
    overlap_s: float
    communication_s: float

    def __add__(self, other: Portions) -> Portions:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Portions(*(a + b for a, b in pairs))


@dataclasses.dataclass(frozen=True)
class Phase:
    """Forward or backward.

    Attributes:
      makespan_s: Seconds from its begin to its end.
      transfers: Each segment, from when it is asked for or ready to its arrival, in order.
      computation: Each layer, in the order of computation.
      applies: The PS's application of each push segment.
      portions: How `makespan_s` divides.
    """

    makespan_s: float
    transfers: tuple[Span, ...]
    computation: tuple[Span, ...]
    applies: tuple[Span, ...]
    portions: Portions


_NO_PHASE = Phase(0.0, (), (), (), Portions(0.0, 0.0, 0.0))


@dataclasses.dataclass(frozen=True)
class Timeline:
    """A step played under a plan (DynaComm, arXiv 2101.07968, section III).

    Attributes:
      costs: The step's costs.
      plan: The plan.
      forward: From the first pull to the end of layer L's computation.
      backward: From there to the end of the last push, or of its application on the PS.
    """

    costs: costs_lib.LayerCosts
    plan: plan_lib.Plan
    forward: Phase
    backward: Phase

    @property
    def forward_s(self) -> float:
        """Seconds of the forward phase."""
        return self.forward.makespan_s

    @property
    def backward_s(self) -> float:
        """Seconds of the backward phase."""
        return self.backward.makespan_s

    @property
    def iteration_s(self) -> float:
        """Seconds of the whole step."""
        return self.forward_s + self.backward_s

    @property
    def portions(self) -> Portions:
        """How `iteration_s` divides."""
        return self.forward.portions + self.backward.portions


def simulate(costs: costs_lib.LayerCosts, plan: plan_lib.Plan) -> Timeline:
    """Plays a step with the given costs under a plan.

    A plan without pushes, of a step that trains nothing, has no backward phase.

    Raises:
      ValueError: If the plan is for another number of layers.
    """
    if plan.num_layers != len(costs):
        raise ValueError(f"`plan` is for {plan.num_layers} layers, `costs` for {len(costs)}.")
    forward = _forward(costs, plan)
    backward = _backward(costs, plan, forward.makespan_s) if plan.push else _NO_PHASE
    return Timeline(costs, plan, forward, backward)


def _forward(costs: costs_lib.LayerCosts, plan: plan_lib.Plan) -> Phase:
    pulls = _pulls(costs, plan)
    computed = segments.prefix_sums(costs.forward_s)
    layers, waited_s = [], 0.0
    for pull in pulls:
        waited_s = max(waited_s, pull.end_s - computed[pull.first - 1])
        for layer in range(pull.first, pull.last + 1):
            start_s, end_s = waited_s + computed[layer - 1], waited_s + computed[layer]
            layers.append(Span(start_s, end_s, layer, layer))
    makespan_s = makespan.forward_s(costs, [last for _, last in plan.pull], plan.credit)
    portions = _portions(makespan_s, computed[-1], layers, pulls)
    return Phase(makespan_s, pulls, tuple(layers), (), portions)


def _pulls(costs: costs_lib.LayerCosts, plan: plan_lib.Plan) -> tuple[Span, ...]:
    ends = [last for _, last in plan.pull]
    arrivals_s = link.arrivals_s(ends, costs.pull_s, costs.overhead_pull_s, plan.credit)
    requests_s = [*[0.0] * plan.credit, *arrivals_s]
    return tuple(
        Span(request_s, arrival_s, *segment)
        for request_s, arrival_s, segment in zip(requests_s, arrivals_s, plan.pull, strict=False)
    )


def _backward(costs: costs_lib.LayerCosts, plan: plan_lib.Plan, start_s: float) -> Phase:
    computed = segments.prefix_sums(costs.backward_s)
    ready_s = [start_s + (computed[-1] - rest_s) for rest_s in computed]
    layers = tuple(
        Span(ready_s[layer], ready_s[layer - 1], layer, layer) for layer in range(len(costs), 0, -1)
    )
    released = [(ready_s[first - 1], first, last) for first, last in plan.push]
    pushes = _queue(released, costs.push_s, costs.overhead_push_s)
    applies = _queue([(push.end_s, push.first, push.last) for push in pushes], costs.apply_s, 0.0)
    # Not the end of the last span, which is rounded otherwise than what schedulers compare.
    makespan_s = makespan.backward_s(costs, [last for _, last in plan.push[::-1]])
    portions = _portions(makespan_s, computed[-1], layers, pushes)
    return Phase(makespan_s, pushes, layers, applies, portions)


def _queue(
    released: Sequence[tuple[float, int, int]], layer_s: np.ndarray, overhead_s: float
) -> tuple[Span, ...]:
    """Serves segments (release time, first, last) one after the other."""
    served = segments.prefix_sums(layer_s)
    spans, free_s = [], 0.0
    for release_s, first, last in released:
        start_s = max(free_s, release_s)
        free_s = start_s + overhead_s + (served[last] - served[first - 1])
        spans.append(Span(start_s, free_s, first, last))
    return tuple(spans)


def _portions(
    makespan_s: float, computed_s: float, computation: Sequence[Span], transfers: Sequence[Span]
) -> Portions:
    starts_s, ends_s = np.array([(span.start_s, span.end_s) for span in transfers]).T
    ends_s = np.maximum.accumulate(ends_s)
    starts_s[1:] = np.maximum(starts_s[1:], ends_s[:-1])  # Transfers at the same time count once.
    edges_s = np.column_stack([starts_s, ends_s]).ravel()
    transferred_s = np.cumsum(np.column_stack([np.zeros_like(starts_s), ends_s - starts_s]))
    times_s = np.array([(span.start_s, span.end_s) for span in computation])
    overlap_s = np.diff(np.interp(times_s, edges_s, transferred_s)).sum()
    overlap_s = float(np.clip(overlap_s, 0, computed_s))
    return Portions(computed_s - overlap_s, overlap_s, makespan_s - computed_s)
