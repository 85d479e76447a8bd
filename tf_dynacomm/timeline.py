"""`simulate`: what runs when in a step, given its costs and a plan.

    >>> from tf_dynacomm import LayerCosts, Plan, timeline
    >>> costs = LayerCosts([3, 1], [2, 2], [4, 2], [3, 1], overhead_s=0.5)
    >>> step = timeline.simulate(costs, Plan([(1, 1), (2, 2)], [(1, 2)]))
    >>> step.forward_s, step.backward_s, step.iteration_s
    (7.5, 10.5, 18.0)
    >>> step.forward_portions
    Portions(computation_s=2.5, overlap_s=1.5, communication_s=3.5)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.schedulers import segments


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
    """How the time of a phase divides (DynaComm, arXiv 2101.07968, section V).

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
class Timeline:
    """A step played under a plan (DynaComm, arXiv 2101.07968, section III).

    Attributes:
      costs: The step's costs.
      plan: The plan.
      pulls: Each pull segment, from its request to its arrival.
      forward: Each layer's forward computation, 1..L.
      backward: Each layer's backward computation, L..1.
      pushes: Each push segment, from when it is sent to its arrival.
      applies: The PS's work for each push segment.
      forward_s: Seconds from the first pull to the end of layer L's computation.
      backward_s: Seconds from there to the end of the last push, or of its application.
      forward_portions: How `forward_s` divides.
      backward_portions: How `backward_s` divides.
    """

    costs: costs_lib.LayerCosts
    plan: plan_lib.Plan
    pulls: tuple[Span, ...]
    forward: tuple[Span, ...]
    backward: tuple[Span, ...]
    pushes: tuple[Span, ...]
    applies: tuple[Span, ...]
    forward_s: float
    backward_s: float
    forward_portions: Portions
    backward_portions: Portions

    @property
    def iteration_s(self) -> float:
        """Seconds of the whole step."""
        return self.forward_s + self.backward_s

    @property
    def iteration_portions(self) -> Portions:
        """How `iteration_s` divides."""
        return self.forward_portions + self.backward_portions


def simulate(costs: costs_lib.LayerCosts, plan: plan_lib.Plan) -> Timeline:
    """Plays a step with the given costs under a plan.

    A plan without pushes, of a step that trains nothing, has no backward phase.

    Raises:
      ValueError: If the plan is for another number of layers.
    """
    if plan.num_layers != len(costs):
        raise ValueError(f"`plan` is for {plan.num_layers} layers, `costs` for {len(costs)}.")
    pulls = _pulls(costs, plan)
    forward, idle_s = _forward(costs, pulls)
    forward_s = segments.prefix_sums(costs.forward_s)[-1] + idle_s
    backward = _backward(costs, forward_s) if plan.push else ()
    pushes = _pushes(costs, plan, forward_s)
    applies = _applies(costs, pushes)
    backward_s = _backward_s(costs, plan)
    return Timeline(
        costs,
        plan,
        pulls,
        forward,
        backward,
        pushes,
        applies,
        forward_s,
        backward_s,
        _portions(forward_s, forward, pulls),
        _portions(backward_s, backward, pushes),
    )


def _pulls(costs: costs_lib.LayerCosts, plan: plan_lib.Plan) -> tuple[Span, ...]:
    sent = segments.prefix_sums(costs.pull_s)
    arrivals_s = [j * costs.overhead_pull_s + sent[b] for j, (_, b) in enumerate(plan.pull, 1)]
    requests_s = [0.0, *arrivals_s[:-1]]
    return tuple(
        Span(request_s, arrival_s, *segment)
        for request_s, arrival_s, segment in zip(requests_s, arrivals_s, plan.pull, strict=True)
    )


def _forward(
    costs: costs_lib.LayerCosts, pulls: Sequence[Span]
) -> tuple[tuple[Span, ...], float]:
    """The layers' computation, and the time that the worker waits."""
    computed = segments.prefix_sums(costs.forward_s)
    spans, idle_s = [], 0.0
    for pull in pulls:
        idle_s = max(idle_s, pull.end_s - computed[pull.first - 1])
        for layer in range(pull.first, pull.last + 1):
            start_s, end_s = computed[layer - 1] + idle_s, computed[layer] + idle_s
            spans.append(Span(start_s, end_s, layer, layer))
    return tuple(spans), idle_s


def _backward(costs: costs_lib.LayerCosts, start_s: float) -> tuple[Span, ...]:
    computed = segments.prefix_sums(costs.backward_s)
    ready_s = [start_s + (computed[-1] - before_s) for before_s in computed]
    layers = range(len(costs), 0, -1)
    return tuple(Span(ready_s[layer], ready_s[layer - 1], layer, layer) for layer in layers)


def _pushes(costs: costs_lib.LayerCosts, plan: plan_lib.Plan, start_s: float) -> tuple[Span, ...]:
    computed = segments.prefix_sums(costs.backward_s)
    sent = segments.prefix_sums(costs.push_s)
    spans, free_s = [], 0.0
    for first, last in plan.push:
        begin_s = max(free_s, start_s + (computed[-1] - computed[first - 1]))
        free_s = begin_s + costs.overhead_push_s + (sent[last] - sent[first - 1])
        spans.append(Span(begin_s, free_s, first, last))
    return tuple(spans)


def _applies(costs: costs_lib.LayerCosts, pushes: Sequence[Span]) -> tuple[Span, ...]:
    applied = segments.prefix_sums(costs.apply_s)
    spans, free_s = [], 0.0
    for push in pushes:
        begin_s = max(free_s, push.end_s)
        free_s = begin_s + (applied[push.last] - applied[push.first - 1])
        spans.append(Span(begin_s, free_s, push.first, push.last))
    return tuple(spans)


def _backward_s(costs: costs_lib.LayerCosts, plan: plan_lib.Plan) -> float:
    """The makespan by its min-max form, so that it is to the last bit what a scheduler found."""
    if not plan.push:
        return 0.0
    ends = [last for _, last in plan.push[::-1]]
    idle_s = segments.idle_s(ends, costs.push_s, costs.backward_s, costs.overhead_push_s)
    return segments.prefix_sums(costs.backward_s)[-1] + idle_s


def _portions(
    makespan_s: float, computation: Sequence[Span], transfers: Sequence[Span]
) -> Portions:
    computation_s = sum(span.end_s - span.start_s for span in computation)
    overlap_s = sum(
        _transferred_s(transfers, span.end_s) - _transferred_s(transfers, span.start_s)
        for span in computation
    )
    return Portions(computation_s - overlap_s, overlap_s, makespan_s - computation_s)
