"""Trace → `LayerCosts`: what each layer costs to compute and to move, for one worker."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.profiling import attribution, compute, link, trace, transfers
from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What a trace says of one worker.

    Attributes:
      costs: The layers' costs, medians over the steps.
      down: The link from the PS to the worker.
      up: The link from the worker to the PS.
      span_s: Median seconds from a step's first request to the arrival of its last push.
      matched_share: Share of the operations' time that was found in the traced graph, 0 to 1.
      steps: Number of whole steps in the trace.
      offsets: The PS tasks' clocks against the worker's.
    """

    costs: costs_lib.LayerCosts
    down: link.Link
    up: link.Link
    span_s: float
    matched_share: float
    steps: int
    offsets: Mapping[str, transfers.ClockOffset]


def measure(
    worker: trace.HostTrace,
    ps: Mapping[str, trace.HostTrace],
    graph: step_graph.StepGraph,
    layers: Sequence[layers_lib.Layer],
    plan: plan_lib.Plan,
    prior: Measurement | None = None,
) -> Measurement:
    """Reads a worker's costs from the trace of some steps.

    Args:
      worker: The worker's trace.
      ps: The traces of the PS tasks, by `ps<task>`.
      graph: The graph of the step that ran.
      layers: Its layers.
      plan: The plan that was in force.
      prior: An earlier measurement, whose links are kept where this trace cannot tell overhead
        and rate apart.

    Raises:
      trace.TraceError: If the trace holds no whole step of this model, or if there are transfers
        of one size only and there is no prior.
    """
    offsets = {task: transfers.clock_offset(worker.steps, host.steps) for task, host in ps.items()}
    pull_bytes, push_bytes = segment_bytes(layers, plan)
    carrying = {number for number, size in enumerate(push_bytes, start=1) if size}
    seen = {
        step: found
        for step in worker.steps
        if (found := transfers.step_transfers(step, worker, ps, offsets, len(plan.pull), carrying))
    }
    if not seen:
        raise trace.TraceError(
            f"The trace of {worker.host} holds no whole step of this model under the plan in force."
        )
    times = _layer_times(worker, seen, graph, layers)
    down = _fit(_pull_samples(pull_bytes, seen.values()), prior and prior.down, "pulls")
    sent_bytes = [size for size in push_bytes if size]
    samples = [sample for step in seen.values() for sample in step.push_samples(sent_bytes)]
    up = _fit(samples, prior and prior.up, "pushes")
    return Measurement(
        _costs(times, layers, down, up),
        down,
        up,
        float(np.median([s.push_arrived_s.max() - s.requested_s for s in seen.values()])),
        sum(t.matched_s for t in times) / max(sum(t.total_s for t in times), 1e-12),
        len(seen),
        offsets,
    )


def mean(measurements: Sequence[Measurement]) -> Measurement:
    """One measurement for several workers that share a plan: the mean of their costs."""
    costs = [m.costs for m in measurements]
    return Measurement(
        costs_lib.LayerCosts(
            pull_s=np.mean([c.pull_s for c in costs], axis=0),
            forward_s=np.mean([c.forward_s for c in costs], axis=0),
            backward_s=np.mean([c.backward_s for c in costs], axis=0),
            push_s=np.mean([c.push_s for c in costs], axis=0),
            overhead_s=(
                float(np.mean([c.overhead_pull_s for c in costs])),
                float(np.mean([c.overhead_push_s for c in costs])),
            ),
            names=costs[0].names,
        ),
        link.mean([m.down for m in measurements]),
        link.mean([m.up for m in measurements]),
        float(np.mean([m.span_s for m in measurements])),
        float(np.mean([m.matched_share for m in measurements])),
        min(m.steps for m in measurements),
        measurements[0].offsets,
    )


def segment_bytes(
    layers: Sequence[layers_lib.Layer], plan: plan_lib.Plan
) -> tuple[list[int], list[int]]:
    """Bytes of each pull segment and of each push segment of a plan."""
    pull = [sum(layer.pull_bytes for layer in layers[a - 1 : b]) for a, b in plan.pull]
    push = [sum(layer.push_bytes for layer in layers[a - 1 : b]) for a, b in plan.push]
    return pull, push


def _layer_times(worker, steps, graph, layers) -> list[compute.LayerTimes]:
    parts = attribution.attribute(graph, layers)
    names = compute.NameTable(graph)
    return [
        compute.layer_times(worker.steps[step].operations, names, parts, len(layers))
        for step in steps
    ]


def _pull_samples(sizes, steps: Iterable[transfers.StepTransfers]) -> list[tuple[float, float]]:
    """(bytes, seconds) of all pulls.

    The first segment of a step also waits for the step to begin on the other side; it counts only
    where the others are of one size.
    """
    skip = 1 if len(set(sizes[1:])) > 1 else 0
    return [
        sample for step in steps for sample in list(zip(sizes, step.pull_s, strict=True))[skip:]
    ]


def _fit(samples, prior: link.Link | None, what: str) -> link.Link:
    """The link that the median durations of each size show, else the prior."""
    durations = collections.defaultdict(list)
    for size, seconds in samples:
        durations[size].append(seconds)
    medians_s = [float(np.median(d)) for d in durations.values()]
    fitted = link.fit(list(durations), medians_s) or prior
    if fitted is None:
        raise trace.TraceError(
            f"All {what} of the plan in force have one size, so that the trace cannot tell "
            "overhead and rate apart."
        )
    return fitted


def _costs(times, layers, down: link.Link, up: link.Link) -> costs_lib.LayerCosts:
    return costs_lib.LayerCosts(
        pull_s=[down.transfer_s(layer.pull_bytes) for layer in layers],
        forward_s=np.median([t.forward_s for t in times], axis=0),
        backward_s=np.median([t.backward_s for t in times], axis=0),
        push_s=[up.transfer_s(layer.push_bytes) for layer in layers],
        overhead_s=(down.overhead_s, up.overhead_s),
        names=[layer.name for layer in layers],
    )
