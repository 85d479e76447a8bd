"""A measured step in the form of a predicted one, so that the two can be shown side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm import timeline
from tf_dynacomm.profiling import compute, measured_steps


def timeline_of(
    step: measured_steps.MeasuredStep,
    costs: costs_lib.LayerCosts,
    plan: plan_lib.Plan | None,
) -> timeline.Timeline:
    """What ran when in a step, from its first request on.

    Forward ends where the worker begins to compute gradients; what belongs to the last layer but
    runs later, such as metrics, is shown where it ran.

    Args:
      step: The step.
      costs: The costs measured over all steps.
      plan: The plan that it followed; `None` if it ran as stock.
    """
    count = len(costs)
    pieces = [_span(p.start_s, p.end_s, _layer(p, count), step.begin_s) for p in step.times.pieces]
    turn_s = next(
        (p.start_s - step.begin_s for p in step.times.pieces if p.rank >= count),
        max((piece.end_s for piece in pieces), default=0.0),
    )
    pulls, pushes = (_transfers(moves, step.begin_s) for moves in (step.pulls, step.pushes))
    applies = [
        _span(p.start_s, p.end_s, count - p.rank, step.begin_s)
        for task in step.applies
        for p in task
    ]
    forward = [piece for piece in pieces if piece.start_s < turn_s]
    backward = [piece for piece in pieces if piece.start_s >= turn_s]
    end_s = step.end_s - step.begin_s
    return timeline.Timeline(
        costs,
        plan or as_stock(count),
        _phase(0.0, turn_s, pulls, forward, ()),
        _phase(turn_s, end_s, pushes, backward, applies),
    )


def as_stock(num_layers: int) -> plan_lib.Plan:
    """What stock does, as far as a plan can say it: every layer by itself, all at once."""
    layers = [(number, number) for number in range(1, num_layers + 1)]
    return plan_lib.Plan(layers, layers[::-1], credit=num_layers, scheduler="stock")


def _layer(piece: compute.Piece, count: int) -> int:
    return piece.rank + 1 if piece.rank < count else 2 * count - piece.rank


def _span(start_s: float, end_s: float, layer: int, begin_s: float) -> timeline.Span:
    return timeline.Span(start_s - begin_s, end_s - begin_s, layer, layer)


def _transfers(moves: Iterable[measured_steps.Move], begin_s: float) -> tuple[timeline.Span, ...]:
    return tuple(
        timeline.Span(m.start_s - begin_s, m.end_s - begin_s, m.first, m.last) for m in moves
    )


def _phase(begin_s, end_s, transfers, computation, applies) -> timeline.Phase:
    makespan_s = max(end_s - begin_s, 0.0)
    computed_s = sum(piece.end_s - piece.start_s for piece in computation)
    overlap_s = _overlap_s(computation, transfers)
    portions = timeline.Portions(
        computed_s - overlap_s, overlap_s, max(makespan_s - computed_s, 0.0)
    )
    return timeline.Phase(makespan_s, transfers, tuple(computation), tuple(applies), portions)


def _overlap_s(computation: Sequence[timeline.Span], transfers: Iterable[timeline.Span]) -> float:
    """Seconds of computation in which there is a transfer; several at once count once."""
    overlap_s, until_s = 0.0, float("-inf")
    for transfer in sorted(transfers, key=lambda t: t.start_s):
        start_s = max(transfer.start_s, until_s)
        until_s = max(transfer.end_s, until_s)
        overlap_s += sum(
            max(0.0, min(c.end_s, transfer.end_s) - max(c.start_s, start_s)) for c in computation
        )
    return overlap_s
