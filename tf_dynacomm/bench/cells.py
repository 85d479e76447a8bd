"""Runs contenders in turn on one running cluster."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm import schedulers, timeline
from tf_dynacomm.bench import contenders, programs, rows
from tf_dynacomm.bench.workload import Cell, Rate, Settings
from tf_dynacomm.profiling import capture, measure, trace
from tf_dynacomm.testbed import emulated_models
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed.link import Link

_WARM_STEPS = 2
_TRACED_STEPS = 6
_MIN_CAPTURE_S, _MAX_CAPTURE_S = 0.3, 20.0
_ATTEMPTS = 3


@dataclasses.dataclass(frozen=True)
class Measured:
    """A step's costs, and the seconds of it that lie outside the model."""

    costs: costs_lib.LayerCosts
    outside_s: float

    def predicted_s(self, plan: plan_lib.Plan) -> float:
        """Predicted seconds of a step under a plan."""
        return timeline.simulate(self.costs, plan).iteration_s + self.outside_s


def run(
    cell: Cell,
    rates: Sequence[Rate],
    settings: Settings,
    report: Callable[[str], None] = lambda line: None,
) -> Iterator[rows.Row]:
    """Runs all contenders at each rate, on one cluster.

    Args:
      cell: What is run.
      rates: The rates.
      settings: How it is run.
      report: Is told what is being done.

    Raises:
      profiling.trace.TraceError: The costs cannot be measured.
    """
    first = rates[0].bytes_per_s
    ps = Link(settings.ps_bytes_per_s, settings.ps_bytes_per_s)
    links = links_lib.Links(Link(first, first, cell.latency_s), ps, how=settings.how)
    with programs.running(cell.workload, links, cell.workers) as program:
        program.run(_WARM_STEPS)
        for rate in rates:
            what = f"{cell.workload.name} {rate.text} {cell.latency_s * 1e3:g} ms"
            report(f"{what}: measuring costs")
            set_rate(program, rate.bytes_per_s)
            measured = measure_costs(program)
            step = program.step
            pull_bytes = [layer.pull_bytes for layer in step.layers]
            scale = cell.workload.scale or 1.0
            plans = contenders.plans(settings.contenders, measured.costs, pull_bytes, scale)
            times_s = take_turns(program, plans, settings.rounds, settings.steps, report)
            yield from _rows(cell, rate, settings, program, measured, plans, times_s)


def set_rate(program: programs.Program, bytes_per_s: float) -> None:
    """Sets the rate of all workers' links, both ways."""
    for worker in range(program.workers):
        program.links.set_rate(
            "worker", worker, down_bytes_per_s=bytes_per_s, up_bytes_per_s=bytes_per_s
        )


def measure_costs(program: programs.Program) -> Measured:
    """Measures a step's costs, the mean of all workers'.

    Raises:
      profiling.trace.TraceError: No trace of several could be read.
    """
    found = _measure(program)
    costs = measure.mean([measurement for measurement, _ in found]).costs
    return Measured(costs, float(np.mean([outside_s for _, outside_s in found])))


def plan_afresh(program: programs.Program) -> list[plan_lib.Plan]:
    """Measures each worker's step, and runs it by the plan that DynaComm makes of its costs.

    Returns:
      The plans, by worker.

    Raises:
      profiling.trace.TraceError: No trace of several could be read.
    """
    plan = schedulers.get("dynacomm")
    plans = [plan(measurement.costs) for measurement, _ in _measure(program)]
    for worker, own in enumerate(plans):
        program.step.set_plan(own, [worker])
    program.run(_WARM_STEPS)
    return plans


def _measure(program: programs.Program) -> list[tuple[measure.Measurement, float]]:
    """What a trace tells of each worker, under the plan that a training begins with."""
    step = program.step
    step.set_plan(step.starting_plan())
    program.run(_WARM_STEPS)
    errors = []
    while len(errors) < _ATTEMPTS:
        try:
            return _measure_once(program)
        except trace.TraceError as e:
            errors.append(e)
    raise errors[-1]


def _measure_once(program: programs.Program) -> list[tuple[measure.Measurement, float]]:
    step, since_s = program.step, time.perf_counter()
    program.run(_WARM_STEPS)
    workers = range(program.workers)
    intervals_s = [step.intervals_s(since_s, w) for w in workers]
    medians_s = [max(float(np.median(i)), 1e-3) for i in intervals_s if len(i)]
    duration_s = min(max(_TRACED_STEPS * max(medians_s), _MIN_CAPTURE_S), _MAX_CAPTURE_S)
    since_s = time.perf_counter()
    program.schedule(math.ceil(duration_s / min(medians_s)) + _WARM_STEPS)
    captured = capture.capture(program.strategy.tasks, duration_s)
    program.strategy.coordinator.join()
    found = []
    for worker, host in captured.workers.items():
        measured = measure.measure(host, captured.ps, step.graph, step.layers, step.plan)
        outside_s = float(np.median(step.intervals_s(since_s, worker))) - measured.span_s
        found.append((measured, max(outside_s, 0.0)))
    return found


def take_turns(
    program: programs.Program,
    plans: Mapping[str, plan_lib.Plan | None],
    rounds: int,
    steps: int,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, list[float]]:
    """Lets contenders take turns; each has run before it is timed.

    Each round begins with another contender, so that none always follows the same one.

    Returns:
      The median step of each round, in seconds, by contender.
    """
    for name, plan in plans.items():
        report(f"warming {name}")
        program.step.set_plan(plan)
        program.run(_WARM_STEPS)
    times_s: dict[str, list[float]] = {name: [] for name in plans}
    names = list(plans)
    for turn in range(rounds):
        report(f"round {turn + 1} of {rounds}")
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times_s[name].append(timed_s(program, plans[name], steps))
    return times_s


def timed_s(program: programs.Program, plan: plan_lib.Plan | None, steps: int) -> float:
    """Median seconds from the start of a step to that of the worker's next one."""
    program.step.set_plan(plan)
    program.run(1)
    since_s = time.perf_counter()
    program.run(steps + 1)
    return float(np.median(program.step.intervals_s(since_s)))


def _rows(
    cell: Cell,
    rate: Rate,
    settings: Settings,
    program: programs.Program,
    measured: Measured,
    plans: Mapping[str, plan_lib.Plan | None],
    times_s: Mapping[str, Sequence[float]],
) -> Iterator[rows.Row]:
    ideal = _ideal_costs(cell, rate, settings, program, measured.costs)
    for name, plan in plans.items():
        ratios = rows.ratios(times_s, name)
        step_s = float(np.median(times_s[name]))
        portions = rows.portions(step_s, ideal, measured.costs, plan)
        yield rows.Row(
            model=cell.workload.name,
            rate=rate.text,
            latency_s=cell.latency_s,
            workers=cell.workers,
            contender=name,
            median_step_s=step_s,
            ratio_to_stock=None if ratios is None else float(np.median(ratios)),
            ratio_low=None if ratios is None else float(ratios.min()),
            ratio_high=None if ratios is None else float(ratios.max()),
            bound_s=rows.bound_s(ideal),
            duplex_limit_s=rows.duplex_limit_s(ideal),
            predicted_s=None if plan is None else measured.predicted_s(plan),
            pulls=0 if plan is None else len(plan.pull),
            pushes=0 if plan is None else len(plan.push),
            links=program.links.how,
            **dataclasses.asdict(portions),
        )


def _ideal_costs(cell, rate, settings, program, costs) -> costs_lib.LayerCosts:
    """The step's costs on a link of the nominal rate, with the times that emulation was asked."""
    step, workload = program.step, cell.workload
    if workload.emulated:
        stages = emulated_models.stages(
            workload.model, workload.scale, workload.forward_s, workload.backward_s
        )
        costs = dataclasses.replace(
            costs,
            forward_s=[stage.forward_s for stage in stages],
            backward_s=[stage.backward_s for stage in stages],
        )
    bytes_per_s = min(rate.bytes_per_s, settings.ps_bytes_per_s / cell.workers)
    pull_bytes = [layer.pull_bytes for layer in step.layers]
    push_bytes = [layer.push_bytes for layer in step.layers]
    return rows.ideal_costs(costs, pull_bytes, push_bytes, bytes_per_s)
