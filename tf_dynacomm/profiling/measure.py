"""Trace → `LayerCosts`: what each layer costs to compute and to move, for one worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.profiling import link, measured_steps, quality, trace, transfers
from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What a trace says of one worker.

    Attributes:
      costs: The layers' costs, medians over the steps.
      down: The link from the PS to the worker.
      up: The link from the worker to the PS.
      span_s: Median seconds from a step's first request to the end of its last push's application.
      matched_share: Share of the operations' time that was found in the traced graph, 0 to 1.
      steps: Number of whole steps in the trace.
      offsets: The PS tasks' clocks against the worker's.
      spread: How much the steps differ; `None` where it is not known.
      confidence: How far all this can be trusted, 0 to 1; see `quality.confidence`.
    """

    costs: costs_lib.LayerCosts
    down: link.Link
    up: link.Link
    span_s: float
    matched_share: float
    steps: int
    offsets: Mapping[str, transfers.ClockOffset]
    spread: quality.Spread | None = None
    confidence: float = 1.0


def measure(
    worker: trace.HostTrace,
    ps: Mapping[str, trace.HostTrace],
    graph: step_graph.StepGraph,
    layers: Sequence[layers_lib.Layer],
    plan: plan_lib.Plan | None,
    prior: Measurement | None = None,
) -> Measurement:
    """Reads a worker's costs from the trace of some steps.

    Args:
      worker: The worker's trace.
      ps: The traces of the PS tasks, by `ps<task>`.
      graph: The graph of the step that ran.
      layers: Its layers.
      plan: The plan that was in force; `None` if the step ran as stock.
      prior: An earlier measurement, whose links are kept where this trace cannot tell overhead
        and rate apart. Without one, a token's way to the PS and an empty tensor's way back are
        taken for the overhead of a pull. A rate that noise hides is that of before or, without a
        prior, that of the other direction; confidence is less then.

    Raises:
      trace.TraceError: If the trace holds no whole step of this model.
      trace.TraceError: If there are transfers of one size only, no prior, and no empty tensors.
      trace.TraceError: If the trace is too uncertain to plan from (see `quality.check`).
    """
    reader = measured_steps.StepReader(worker, ps, graph, layers, plan)
    return of_steps(worker.host, reader.read(), layers, reader.offsets, prior)


def of_steps(
    host: str,
    steps: Sequence[measured_steps.MeasuredStep],
    layers: Sequence[layers_lib.Layer],
    offsets: Mapping[str, transfers.ClockOffset],
    prior: Measurement | None = None,
) -> Measurement:
    """Takes the medians over a worker's steps.

    Raises:
      trace.TraceError: As `measure`.
    """
    found = summary(steps, offsets)
    pulled = [s for step in steps for s in step.down_samples]
    pushed = [s for step in steps for s in step.up_samples]
    empty = [(0.0, s.round_trip_s) for s in steps if s.round_trip_s is not None]
    fitted = _fit(pulled), _fit(pushed)
    down = fitted[0] or (prior and prior.down) or _fit([*pulled, *empty])
    up = fitted[1] or (prior and prior.up)
    _check_links(down, up)
    down, up = (
        _with_rate(down, pulled, prior and prior.down, up),
        _with_rate(up, pushed, prior and prior.up, down),
    )
    told = sum(way is not None and np.isfinite(way.rate_bytes_per_s) for way in fitted)
    found["confidence"] *= quality.told_share(told)
    quality.check(host, found["matched_share"], found["confidence"])
    return Measurement(_costs(steps, layers, down, up), down, up, **found)


def summary(
    steps: Sequence[measured_steps.MeasuredStep],
    offsets: Mapping[str, transfers.ClockOffset],
) -> dict[str, Any]:
    """What a `Measurement` tells besides costs and links: the steps as a whole, and their trust."""
    times = [step.times for step in steps]
    matched_share = sum(t.matched_s for t in times) / max(sum(t.total_s for t in times), 1e-12)
    span_s = float(np.median([step.end_s - step.begin_s for step in steps]))
    spread = quality.spread(times)
    clock_error_s = max((offset.error_s for offset in offsets.values()), default=0.0)
    return {
        "span_s": span_s,
        "matched_share": matched_share,
        "steps": len(steps),
        "offsets": offsets,
        "spread": spread,
        "confidence": quality.confidence(
            matched_share, len(steps), span_s, spread.step_s, clock_error_s
        ),
    }


def mean(measurements: Sequence[Measurement]) -> Measurement:
    """One measurement for several workers that share a plan: the mean of their costs."""
    costs = [m.costs for m in measurements]
    vectors = ("pull_s", "forward_s", "backward_s", "push_s", "apply_s")
    return dataclasses.replace(
        measurements[0],
        costs=costs_lib.LayerCosts(
            **{name: np.mean([getattr(c, name) for c in costs], axis=0) for name in vectors},
            overhead_s=np.mean([c.overhead_s for c in costs], axis=0),
            names=costs[0].names,
        ),
        down=link.mean([m.down for m in measurements]),
        up=link.mean([m.up for m in measurements]),
        span_s=float(np.mean([m.span_s for m in measurements])),
        matched_share=float(np.mean([m.matched_share for m in measurements])),
        steps=min(m.steps for m in measurements),
        confidence=min(m.confidence for m in measurements),
    )


def _fit(samples: Sequence[measured_steps.Sample]) -> link.Link | None:
    return link.fit(*zip(*samples, strict=True)) if samples else None


def _with_rate(found: link.Link, samples, *others: link.Link | None) -> link.Link:
    """The link with the rate of the first of others that has one, if its own is not told.

    It is no less than what the samples show for certain.
    """
    rates = [o.rate_bytes_per_s for o in others if o and np.isfinite(o.rate_bytes_per_s)]
    if np.isfinite(found.rate_bytes_per_s) or not rates:
        return found
    sizes_bytes, durations_s = zip(*samples, strict=True)
    rate = max(rates[0], link.least_rate(sizes_bytes, durations_s))
    return link.of_rate(sizes_bytes, durations_s, rate)


def _check_links(down: link.Link | None, up: link.Link | None) -> None:
    for found, what in ((down, "pulls"), (up, "pushes")):
        if found is None:
            raise trace.TraceError(
                f"All {what} of the plan in force have one size, so that the trace cannot tell "
                "overhead and rate apart."
            )


def _costs(steps, layers, down: link.Link, up: link.Link) -> costs_lib.LayerCosts:
    pull_bytes = np.array([layer.pull_bytes for layer in layers])
    push_bytes = np.array([layer.push_bytes for layer in layers])
    return costs_lib.LayerCosts(
        pull_s=down.transfer_s(pull_bytes) + np.median([s.rows_pull_s for s in steps], axis=0),
        forward_s=np.median([step.times.forward_s for step in steps], axis=0),
        backward_s=np.median([step.times.backward_s for step in steps], axis=0),
        push_s=up.transfer_s(push_bytes) + np.median([s.rows_push_s for s in steps], axis=0),
        overhead_s=(down.overhead_s, up.overhead_s),
        apply_s=np.median([step.apply_s for step in steps], axis=0),
        names=[layer.name for layer in layers],
    )
