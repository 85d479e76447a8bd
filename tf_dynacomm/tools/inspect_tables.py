"""What `dynacomm-inspect` prints."""

from __future__ import annotations

import collections
import math
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm import schedulers, timeline
from tf_dynacomm.tools import command
from tf_dynacomm.tools import table as table_lib

if TYPE_CHECKING:
    from tf_dynacomm.profiling import analysis as analysis_lib
    from tf_dynacomm.profiling import measured_steps, trace
    from tf_dynacomm.profiling import run as run_lib

_UNKNOWN = "?"
_EPOCH = re.compile(r"costs-(\d+)\.json")
_COARSE = (
    "The step was not saved beside the trace: layers are told by names alone, a coarser answer. "
    "What no name tells counts for what ran before it, and sizes are not known."
)


def run_section(path: pathlib.Path, run: run_lib.Run) -> str:
    """Says which run is shown."""
    folder = run.files[0].parent
    which = f"{path}" if path in (folder, run.files[0]) else f"{folder}, the latest run in {path}"
    return f"{which}: {len(run.hosts)} hosts, {len(run.workers)} workers, {len(run.ps)} PS tasks\n"


def host_section(host: trace.HostTrace, operations: int) -> str:
    """Describes what a host recorded: its transfers and its longest operations.

    Args:
      host: The host.
      operations: How many operations to show.
    """
    moving = [step for step in host.steps.values() if step.transfers]
    task = f" ({host.task})" if host.task else ""
    parts = [f"{host.host}{task}: {len(host.steps)} functions ran, {len(moving)} of them received"]
    waits_s, times_s = collections.defaultdict(list), collections.defaultdict(list)
    for step in host.steps.values():
        for source, transfer in step.transfers.items():
            waits_s[source].append(transfer.arrived_s - transfer.requested_s)
        for operation in step.operations:
            times_s[operation.node].append(operation.end_s - operation.start_s)
    if waits_s:
        rows = [(name, len(s), _ms(np.median(s))) for name, s in waits_s.items()]
        parts.append(table_lib.table(("received", "times", "wait, median ms"), rows))
    longest = sorted(times_s.items(), key=lambda item: -sum(item[1]))[:operations]
    if longest:
        rows = [(name, len(s), _ms(np.median(s)), _ms(sum(s))) for name, s in longest]
        parts.append(table_lib.table(("operation", "times", "median ms", "in all ms"), rows))
    return "\n\n".join(parts) + "\n"


def worker_section(analysis: analysis_lib.Analysis, step: int | None) -> str:
    """Describes a worker: its costs, one of its steps, and what schedulers would make of it.

    Args:
      analysis: What its trace says.
      step: Number of the step, from 1; the one of median length if `None`.
    """
    shown = chosen_step(analysis, step)
    parts = [
        _summary(analysis),
        *([] if analysis.layers else [_COARSE]),
        _layers(analysis),
        f"step {analysis.steps.index(shown) + 1} of {len(analysis.steps)}:",
        _transfers(shown),
        _portions(analysis, shown),
        comparison(analysis.costs, analysis.plan, analysis.measurement.span_s),
    ]
    return "\n\n".join(parts) + "\n"


def chosen_step(analysis: analysis_lib.Analysis, number: int | None) -> measured_steps.MeasuredStep:
    """The step of a number, from 1; if `None`, the (upper) median one.

    Raises:
      UserError: There are fewer steps.
    """
    count = len(analysis.steps)
    if number is not None:
        if number > count:
            raise command.UserError(
                f"--step ({number}) must be at most {count}: worker {analysis.worker} has no more "
                "whole steps in this trace."
            )
        return analysis.steps[number - 1]
    by_length = sorted(analysis.steps, key=lambda s: s.end_s - s.begin_s)
    return by_length[count // 2]


def sizes(analysis: analysis_lib.Analysis) -> list[tuple[int | None, int | None]]:
    """(parameters, bytes) that each layer pulls; `None` where only names are known."""
    if analysis.layers is None:
        return [(None, None)] * len(analysis.costs)
    return [
        (sum(pull.crossings[0].type.size for pull in layer.pulls), layer.pull_bytes)
        for layer in analysis.layers
    ]


def _summary(analysis: analysis_lib.Analysis) -> str:
    found = analysis.measurement
    clocks = ", ".join(
        f"{task} {_ms(o.offset_s)} ± {_ms(o.error_s)} ms" for task, o in found.offsets.items()
    )
    ran = f"plan by {analysis.plan.scheduler or 'hand'}" if analysis.plan else "as stock"
    return "\n".join(
        (
            f"worker {analysis.worker}, {ran}: {found.steps} whole steps of {_ms(found.span_s)} ms"
            f"{_pace(analysis.steps)}",
            f"matched {found.matched_share:.1%} of the operations' time, "
            f"confidence {found.confidence:.2f}",
            f"pull: Δt {_ms(found.down.overhead_s)} ms, {_rate(found.down.rate_bytes_per_s)}",
            f"push: Δt {_ms(found.up.overhead_s)} ms, {_rate(found.up.rate_bytes_per_s)}",
            f"clocks ahead of the worker's: {clocks}",
        )
    )


def _pace(steps: Sequence[measured_steps.MeasuredStep]) -> str:
    """How often a step begins: between two, a worker does what no plan can change."""
    intervals_s = np.diff([step.begin_s for step in steps])
    return f", one every {_ms(np.median(intervals_s))} ms" if len(intervals_s) else ""


def _layers(analysis: analysis_lib.Analysis) -> str:
    costs = analysis.costs
    columns = np.array(
        [costs.forward_s, costs.backward_s, costs.pull_s, costs.push_s, costs.apply_s]
    )
    shares = columns.sum(axis=0) / max(columns.sum(), 1e-12)
    rows = [
        (
            name,
            *(_UNKNOWN if size is None else f"{size:,}" for size in own),
            *map(_ms, seconds),
            f"{share:.1%}",
        )
        for name, own, seconds, share in zip(
            costs.names, sizes(analysis), columns.T, shares, strict=True
        )
    ]
    header = ("layer", "parameters", "bytes", "fc ms", "bc ms", "pt ms", "gt ms", "apply ms")
    return table_lib.table((*header, "share"), rows)


def _transfers(step: measured_steps.MeasuredStep) -> str:
    rows = []
    for way, moves in (("pull", step.pulls), ("push", step.pushes)):
        for move in moves:
            layers = f"{move.first}" if move.first == move.last else f"{move.first}-{move.last}"
            seconds = move.end_s - move.start_s
            rate = move.size_bytes / seconds if move.size_bytes and seconds > 0 else math.nan
            times = (_ms(t - step.begin_s) for t in (move.start_s, move.end_s))
            size = f"{move.size_bytes:,}" if move.size_bytes else _UNKNOWN
            rows.append((f"{way} {layers}", size, *times, _rate(rate)))
    header = ("segment", "bytes", "requested ms", "arrived ms", "effective rate")
    return table_lib.table(header, rows)


def _portions(analysis: analysis_lib.Analysis, shown: measured_steps.MeasuredStep) -> str:
    from tf_dynacomm.profiling import measured_timeline

    measured = measured_timeline.timeline_of(shown, analysis.costs, analysis.plan)
    predicted = timeline.simulate(analysis.costs, measured.plan)
    rows = []
    for name, each in (("measured", measured), ("predicted", predicted)):
        portions = each.portions
        parts = (portions.computation_s, portions.overlap_s, portions.communication_s)
        rows.append((name, *map(_ms, (each.forward_s, each.backward_s, each.iteration_s, *parts))))
    header = ("step, ms", "forward", "backward", "in all")
    return table_lib.table((*header, "computing only", "overlapped", "transferring only"), rows)


def comparison(
    costs: costs_lib.LayerCosts,
    in_force: plan_lib.Plan | None = None,
    measured_s: float | None = None,
) -> str:
    """Compares what every scheduler would make of costs, and tells the best plan's segments.

    Args:
      costs: The costs.
      in_force: The plan that gains are told against; without one, stock or something like it.
      measured_s: Seconds of a measured step. Without a plan in force gains are told against it,
        since no prediction is as true of stock, whose transfers come in no order.
    """
    from tf_dynacomm.profiling import measured_timeline

    base = in_force or measured_timeline.as_stock(len(costs))
    told = "in force" if in_force else "stock"
    base_s = timeline.simulate(costs, base).iteration_s
    if in_force is None and measured_s is not None:
        told, base_s = "stock, measured", measured_s
    plans = {name: plan for name in schedulers.names() if (plan := _plan(name, costs))}
    times_s = {name: timeline.simulate(costs, plan).iteration_s for name, plan in plans.items()}
    rows = [(told, len(base.pull), len(base.push), _ms(base_s), "")]
    for name in sorted(plans, key=times_s.__getitem__):
        plan, gain = plans[name], 1 - times_s[name] / base_s if base_s else 0.0
        rows.append((name, len(plan.pull), len(plan.push), _ms(times_s[name]), f"{gain:+.1%}"))
    header = ("scheduler", "pull segments", "push segments", "predicted ms", "gain")
    return f"{table_lib.table(header, rows)}\n\ndynacomm proposes {_segments(plans['dynacomm'])}"


def _plan(name: str, costs: costs_lib.LayerCosts) -> plan_lib.Plan | None:
    """What a scheduler makes of costs; `None` of more layers than it takes."""
    try:
        return schedulers.get(name)(costs)
    except ValueError:
        return None


def _segments(plan: plan_lib.Plan) -> str:
    ways = (("pull", plan.pull), ("push", plan.push))
    return ", ".join(f"{way} {_ranges(segments)}" for way, segments in ways)


def _ranges(segments: Sequence[plan_lib.Segment]) -> str:
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in segments) or "nothing"


def latest_costs(path: pathlib.Path) -> pathlib.Path | None:
    """The costs file of the latest epoch in a folder, if there is one."""
    found = [p for p in path.glob("costs-*.json") if _EPOCH.fullmatch(p.name)]
    return max(found, key=lambda p: int(_EPOCH.fullmatch(p.name)[1]), default=None)


def costs_section(name: str, costs: costs_lib.LayerCosts) -> str:
    """Describes costs: each layer's, and a step's time under every scheduler's plan."""
    vectors = (costs.pull_s, costs.forward_s, costs.backward_s, costs.push_s)
    rows = [
        (layer, *map(_ms, seconds)) for layer, *seconds in zip(costs.names, *vectors, strict=True)
    ]
    layers = table_lib.table(("layer", "pt ms", "fc ms", "bc ms", "gt ms"), rows)
    overheads = f"Δt: pull {_ms(costs.overhead_pull_s)} ms, push {_ms(costs.overhead_push_s)} ms"
    return f"{name}\n\n{layers}\n{overheads}\n\n{comparison(costs)}\n"


def _rate(rate_bytes_per_s: float) -> str:
    if math.isnan(rate_bytes_per_s):
        return _UNKNOWN
    known = math.isfinite(rate_bytes_per_s)
    return f"{rate_bytes_per_s / 1e6:.1f} MB/s" if known else "too fast to measure"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
