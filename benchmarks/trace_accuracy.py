"""Measures how true the costs are that a trace gives, and what it costs to take and read one.

    python -m benchmarks.trace_accuracy
    python -m benchmarks.trace_accuracy --parts=emulated,prediction

Writes `TRACE_ACCURACY.md` and `results/trace_accuracy.json`; of some parts alone, only prints them.
"""

from __future__ import annotations

import itertools
import math
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from absl import flags

from benchmarks import results, trace_programs
from tf_dynacomm import Plan, schedulers, timeline
from tf_dynacomm.tools import command, environment

_PREDICTED = flags.DEFINE_list(
    "predicted", ["googlenet", "emulated:googlenet:0.125:0.15:0.3"], "Models whose steps are told."
)
_TRACED = flags.DEFINE_list(
    "traced",
    ["small_cnn", "emulated:googlenet:0.03125:0.03:0.06"],
    "Models whose epochs are traced; the large trace is of the first.",
)
_LATENCY_MS = flags.DEFINE_float("latency_ms", 10.0, "Added latency each way.", lower_bound=1.0)
_STEPS = flags.DEFINE_integer("steps", 10, "Steps of a turn.", lower_bound=2)
_EPOCH_STEPS = flags.DEFINE_integer("epoch_steps", 100, "Steps of an epoch.", lower_bound=20)
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds of epochs.", lower_bound=1)
_TRACE_MB = flags.DEFINE_float("trace_mb", 20.0, "Size of the trace to read.")

_SCHEDULERS = ("sequential", "layer_by_layer", "dynacomm")
_NO_COMPUTATION = 1e-3
_MARGIN = 1.2
# Of each layer: thousands of float32 elements, milliseconds forward, milliseconds backward.
_LAYERS = (
    (80, 20, 50),
    (200, 35, 60),
    (400, 25, 40),
    (120, 45, 80),
    (300, 30, 50),
    (500, 50, 90),
    (240, 25, 45),
    (440, 40, 70),
)
_INTRODUCTION = """\
Local clusters of one worker and one parameter server behind a shaped link (see
`tf_dynacomm/testbed`). On an emulated accelerator every layer takes a time that is known."""
_EMULATED_NOTE = """\
Required: each layer within 5 % or 0.3 ms, Δt within 20 %, rates within 5 %. The true Δt of a pull
is told by the clock, without a trace: by how much a step without computation takes longer with each
further pull segment. What the latency adds is the difference of the Δt of two clusters, one with
and one without: a pull asks and is answered, a push goes one way."""
_PREDICTION_NOTE = """\
Required: within 8 %. *Before*: predicted from a trace of the plan that the training began with.
*In use*: from a trace of the plan itself."""
_OVERHEAD_NOTE = """\
Required: at most 1.33 %. Each round has an epoch without and one with a trace that is taken, read
and planned from, all on this machine; the order alternates."""
_PARSING_NOTE = "Required: at most 3 s."


def emulated() -> list[results.Table]:
    """Costs of emulated models against those that they were asked to have."""
    rows = []
    for model in ("chain", "branches"):
        found = []
        for latency_s in (0.0, _LATENCY_MS.value / 1e3):
            what = f"{model}, {latency_s * 1e3:g} ms"
            with trace_programs.running_stages(_stages(model), latency_s) as program:
                found.append(trace_programs.measured(program)[0])
                rows += _emulated_rows(what, found[-1])
                if latency_s:
                    rows.append(_pull_overhead_row(what, program, found[-1]))
        rows += _added_rows(model, *found)
    header = ("model, latency", "", "true", "measured", "off [%]")
    return [results.Table("Emulated accelerator", header, tuple(rows), _EMULATED_NOTE)]


def _stages(model: str):
    """Layers of `_LAYERS`; with branches, every other of them is two beside each other."""
    from tf_dynacomm.testbed import accelerator

    stages = []
    for number, (thousands, forward_ms, backward_ms) in enumerate(_LAYERS):
        sizes = [thousands * 1000]
        if model == "branches" and number % 2:
            sizes = [sizes[0] // 4, sizes[0] - sizes[0] // 4]
        beside = [
            accelerator.Tensors(f"layer{number}_{branch}", (size,))
            for branch, size in enumerate(sizes)
        ]
        stages.append(accelerator.Stage(tuple(beside), forward_ms / 1e3, backward_ms / 1e3))
    return stages


def _emulated_rows(what: str, found) -> Iterator[tuple[results.Cell, ...]]:
    """The layer that is farthest off each way, and the rates."""
    _, *truths_ms = np.array(_LAYERS, float).T
    for way, true_ms in zip(("forward", "backward"), truths_ms, strict=True):
        measured_ms = getattr(found.costs, f"{way}_s") * 1e3
        worst = int(np.argmax(np.abs(measured_ms - true_ms) / np.maximum(0.05 * true_ms, 0.3)))
        yield _row(what, f"worst {way} of a layer [ms]", true_ms[worst], measured_ms[worst])
    for way, link in (("down", found.down), ("up", found.up)):
        rate_mbit_per_s = link.rate_bytes_per_s * 8 / 1e6
        yield _row(what, f"rate {way} [Mbit/s]", trace_programs.MBIT_PER_S.value, rate_mbit_per_s)


def _pull_overhead_row(what: str, program, found) -> tuple[results.Cell, ...]:
    """Δt of a pull, by the clock: steps without computation, with few and with many segments."""
    from tf_dynacomm.bench import cells

    program.slowness.set(0, _NO_COMPUTATION)
    count = len(program.step.layers)
    plans = {segments: _cut(program.step, segments) for segments in (2, count)}
    times_s = cells.take_turns(program, plans, rounds=2, steps=_STEPS.value)
    few_s, many_s = (statistics.median(times_s[segments]) for segments in plans)
    true_s = (many_s - few_s) / (count - 2)
    return _row(what, "Δt of a pull [ms]", true_s * 1e3, found.down.overhead_s * 1e3)


def _cut(step, segments: int) -> Plan:
    """A plan of so many pulls, and one push."""
    ends = np.linspace(0, len(step.layers), segments + 1).astype(int).tolist()
    pull = [(before + 1, last) for before, last in itertools.pairwise(ends)]
    return Plan(pull, [(1, len(step.layers))], names=step.names)


def _added_rows(model: str, without, with_latency) -> Iterator[tuple[results.Cell, ...]]:
    """What latency adds to Δt."""
    for way, times in (("down", 2), ("up", 1)):
        before, after = getattr(without, way), getattr(with_latency, way)
        added_ms = (after.overhead_s - before.overhead_s) * 1e3
        what = "pull" if way == "down" else "push"
        yield _row(model, f"added to Δt of a {what} [ms]", times * _LATENCY_MS.value, added_ms)


def _row(what: str, quantity: str, true: float, measured: float) -> tuple[results.Cell, ...]:
    return what, quantity, float(true), float(measured), _off(true, measured)


def _off(true: float, found: float) -> float:
    """By how many percent it is off."""
    return float(100 * (found / true - 1))


def prediction() -> list[results.Table]:
    """Predicted steps against measured ones."""
    rows = []
    for name in _PREDICTED.value:
        workload = trace_programs.workload(name)
        with trace_programs.running(workload) as program:
            start, outside_s = trace_programs.measured(program)
            plans = {name: schedulers.get(name)(start.costs) for name in _SCHEDULERS}
            before_s = {name: _predicted_s(start, outside_s, plans[name]) for name in plans}
            for scheduler, plan in plans.items():
                times = (before_s[scheduler], *_run(program, plan, start))
                rows.append(_prediction_row(workload.model, scheduler, plan, *times))
    header = ("model", "plan", "pulls", "pushes", "step [ms]", "before [ms]", "off [%]")
    header += ("in use [ms]", "off [%]", "matched [%]")
    title = f"Predicted step time, {trace_programs.MBIT_PER_S.value:g} Mbit/s"
    return [results.Table(title, header, tuple(rows), _PREDICTION_NOTE, form=".1f")]


def _predicted_s(found, outside_s: float, plan: Plan) -> float:
    return timeline.simulate(found.costs, plan).iteration_s + outside_s


def _run(program, plan: Plan, prior) -> tuple[float, float, float]:
    """Switches to a plan: seconds of a step, those predicted in use, and the matched share."""
    from tf_dynacomm.bench import cells

    program.step.set_plan(plan)
    program.run(trace_programs.WARM_STEPS)
    found, outside_s = trace_programs.measured(program, prior)
    step_s = cells.timed_s(program, plan, _STEPS.value)
    return step_s, _predicted_s(found, outside_s, plan), found.matched_share


def _prediction_row(
    model: str,
    scheduler: str,
    plan: Plan,
    before_s: float,
    step_s: float,
    in_use_s: float,
    matched_share: float,
) -> tuple[results.Cell, ...]:
    predicted = [(s * 1e3, _off(step_s, s)) for s in (before_s, in_use_s)]
    segments = f"{len(plan.pull)}", f"{len(plan.push)}"
    return model, scheduler, *segments, step_s * 1e3, *sum(predicted, ()), 100 * matched_share


def overhead() -> list[results.Table]:
    """What a trace costs the epoch that it is taken in."""
    rows = []
    for name in _TRACED.value:
        workload = trace_programs.workload(name)
        with trace_programs.running(workload) as program:
            kept = trace_programs.epochs(program, _EPOCH_STEPS.value, _ROUNDS.value)
            more = [_off(*pair) for pair in zip(kept["without"], kept["with"], strict=True)]
            medians_s = [statistics.median(times_s) for times_s in kept.values()]
            rows.append((workload.model, *medians_s, statistics.median(more), min(more), max(more)))
    header = ("model", "without [s]", "with [s]", "more [%]", "least", "most")
    title = f"One trace in an epoch of {_EPOCH_STEPS.value} steps; {_ROUNDS.value} rounds"
    return [results.Table(title, header, tuple(rows), _OVERHEAD_NOTE)]


def parsing() -> list[results.Table]:
    """How long it takes to read a large trace."""
    from tf_dynacomm.profiling import run

    program_of = trace_programs.running(trace_programs.workload(_TRACED.value[0]))
    with tempfile.TemporaryDirectory() as logdir, program_of as program:
        first = trace_programs.traced(program, logdir=pathlib.Path(logdir, "first"))
        steps_per_mb = len(first.workers[0].steps) / _size_mb(first.folder)
        steps = math.ceil(_MARGIN * _TRACE_MB.value * steps_per_mb)
        folder = trace_programs.traced(program, steps, pathlib.Path(logdir, "second")).folder
        begin_s = time.thread_time()
        loaded = run.load(folder)
        seconds = time.thread_time() - begin_s
        row = (_size_mb(folder), float(len(loaded.workers[0].steps)), seconds)
    return [results.Table("Reading a trace", ("MB", "steps", "CPU [s]"), (row,), _PARSING_NOTE)]


def _size_mb(folder: pathlib.Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


_PARTS: dict[str, Callable[[], Sequence[results.Table]]] = {
    part.__name__: part for part in (emulated, prediction, overhead, parsing)
}
_CHOSEN = flags.DEFINE_list("parts", list(_PARTS), "What is measured.")


def main(argv: list[str]) -> None:
    """Measures, and writes if nothing is left out."""
    del argv
    if unknown := set(_CHOSEN.value) - _PARTS.keys():
        raise command.UserError(f"--parts ({', '.join(unknown)}) must be of {', '.join(_PARTS)}.")
    environment.load_tensorflow()
    tables = []
    for name in _CHOSEN.value:
        print(f"measuring: {name}", flush=True)
        tables += _PARTS[name]()
    if set(_CHOSEN.value) == _PARTS.keys():
        results.write("trace_accuracy", "How true traces are", _INTRODUCTION, tables)
    else:
        print("\n\n".join(table.markdown() for table in tables))


if __name__ == "__main__":
    command.run(main)
