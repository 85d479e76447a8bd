"""`dynacomm-plan`: compares schedules of a step, and writes the best one's plan.

    dynacomm-plan --costs=runs/costs-1.json --out=plan.json

reads costs that a training has measured. Without a training,

    dynacomm-plan --model=resnet152 --bandwidth=10Gbps --flops=3e12 --overhead=1ms --batch_size=32

takes them from the model's architecture. Neither loads TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from absl import flags

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import models, schedulers, timeline, timeline_plot, timeline_trace
from tf_dynacomm.schedulers import exhaustive
from tf_dynacomm.tools import command, quantities
from tf_dynacomm.tools import table as table_lib

_COSTS = flags.DEFINE_string("costs", None, "File of measured costs.")
_MODEL = flags.DEFINE_enum(
    "model", None, models.architecture_names(), "Model whose costs are estimated instead."
)
_BANDWIDTH = flags.DEFINE_string(
    "bandwidth", "10Gbps", "With --model: rate of the link, the same down and up."
)
_FLOPS = flags.DEFINE_float(
    "flops", 3e12, "With --model: operations per second that the worker reaches.", lower_bound=1.0
)
_OVERHEAD = flags.DEFINE_string(
    "overhead", "1ms", "With --model: time that each transmission costs besides its bytes."
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 32, "With --model: images in a step.", lower_bound=1, upper_bound=2**31 - 1
)
_SCHEDULER = flags.DEFINE_enum(
    "scheduler", "all", ["all", *schedulers.names()], "How to cut pulls and pushes into segments."
)
_CREDIT = flags.DEFINE_integer(
    "credit", 1, "Pull segments that may be in flight; 0 for the best number.", lower_bound=0
)
_BUCKET_MIB = flags.DEFINE_float(
    "bucket_mib", 25.0, "With --model: size of the buckets of bucketed.", lower_bound=1e-3
)
_OUT = flags.DEFINE_string("out", None, "File for the plan of the shortest step.")
_PLOT = flags.DEFINE_string("plot", None, "File for a picture of the steps: .svg or .png.")
_TRACE = flags.DEFINE_string(
    "trace", None, "File for the shortest step as Chrome trace JSON, for ui.perfetto.dev."
)

_HEADER = (
    "scheduler",
    "pulls",
    "pushes",
    "forward",
    "backward",
    "step",
    "computation",
    "overlap",
    "communication",
    "over bound",
)


def load_costs() -> costs_lib.LayerCosts:
    """Loads or estimates the costs that the flags name.

    Raises:
      UserError: A flag or the file is wrong.
    """
    if (_COSTS.value is None) == (_MODEL.value is None):
        raise command.UserError("give either --costs or --model: what is to be planned")
    if _COSTS.value is not None:
        with command.user_errors("--costs"):
            return costs_lib.LayerCosts.load(_COSTS.value)
    with command.user_errors("--overhead"):
        overhead_s = quantities.time_s(_OVERHEAD.value)
    rate_bytes_per_s = _rate_bytes_per_s()
    with command.user_errors("--model"):
        return models.architecture(_MODEL.value).costs(
            batch_size=_BATCH_SIZE.value,
            rate_bytes_per_s=rate_bytes_per_s,
            flops_per_s=_FLOPS.value,
            overhead_s=overhead_s,
        )


def _rate_bytes_per_s() -> float:
    with command.user_errors("--bandwidth"):
        return quantities.rate_bytes_per_s(_BANDWIDTH.value)


def play(costs: costs_lib.LayerCosts) -> dict[str, timeline.Timeline]:
    """Plays the step under each scheduler that the flags name.

    Raises:
      UserError: The scheduler cannot plan such a step.
    """
    names = [_SCHEDULER.value]
    if _SCHEDULER.value == "all":
        names = [name for name in schedulers.names() if _is_quick(name, costs)]
    with command.user_errors("--scheduler"):
        return {name: timeline.simulate(costs, _scheduler(name)(costs)) for name in names}


def _is_quick(name: str, costs: costs_lib.LayerCosts) -> bool:
    return name != "exhaustive" or len(costs) <= exhaustive.MAX_LAYERS


def _scheduler(name: str) -> schedulers.Scheduler:
    options = {"credit": _CREDIT.value or None}
    if name == "bucketed" and _MODEL.value is not None:
        options |= {"bucket_mib": _BUCKET_MIB.value, "rate_bytes_per_s": _rate_bytes_per_s()}
    return functools.partial(schedulers.get(name), **options)


def bound_s(costs: costs_lib.LayerCosts) -> float:
    """Seconds of the best step if transmissions cost nothing besides their bytes (Δt = 0)."""
    free = dataclasses.replace(costs, overhead_s=(0.0, 0.0))
    return timeline.simulate(free, schedulers.get("dynacomm")(free)).iteration_s


def describe(costs: costs_lib.LayerCosts) -> str:
    """Tells what a step costs in all, in one line."""
    computation_s = costs.forward_s.sum() + costs.backward_s.sum()
    parts = [
        f"{len(costs)} layers",
        f"computation {_time(computation_s)}",
        f"pull {_time(costs.pull_s.sum())} + {_time(costs.overhead_pull_s)} each",
        f"push {_time(costs.push_s.sum())} + {_time(costs.overhead_push_s)} each",
    ]
    if costs.apply_s.any():
        parts.append(f"application {_time(costs.apply_s.sum())}")
    return ", ".join(parts)


def table(steps: dict[str, timeline.Timeline], limit_s: float) -> str:
    """Compares steps, a line for each.

    Args:
      steps: The steps by their schedulers.
      limit_s: The bound that they are compared with.
    """
    rows = (_row(name, step, limit_s) for name, step in steps.items())
    return table_lib.table(_HEADER, rows)


def _row(name: str, step: timeline.Timeline, limit_s: float) -> tuple[str, ...]:
    times_s = (step.forward_s, step.backward_s, step.iteration_s)
    return (
        name if step.plan.credit == 1 else f"{name} (credit {step.plan.credit})",
        f"{len(step.plan.pull)}",
        f"{len(step.plan.push)}",
        *map(_time, times_s + dataclasses.astuple(step.portions)),
        f"{step.iteration_s / limit_s - 1:+.1%}" if limit_s else "",
    )


def _time(time_s: float) -> str:
    return f"{time_s * 1e3:.2f} ms"


def write(steps: dict[str, timeline.Timeline]) -> None:
    """Writes the files that the flags name.

    Raises:
      UserError: One cannot be written.
    """
    shortest = min(steps.values(), key=lambda step: step.iteration_s)
    if _OUT.value is not None:
        with command.user_errors("--out"):
            shortest.plan.save(_OUT.value)
    if _TRACE.value is not None:
        with command.user_errors("--trace"):
            timeline_trace.write(_TRACE.value, shortest)
    if _PLOT.value is not None:
        _plot(steps)


def _plot(steps: dict[str, timeline.Timeline]) -> None:
    longest_first = sorted(steps.items(), key=lambda item: -item[1].iteration_s)
    try:
        with command.user_errors("--plot"):
            timeline_plot.write(_PLOT.value, dict(longest_first))
    except ImportError as error:
        raise command.UserError(f"--plot: {error}") from error


def main(argv: Sequence[str]) -> None:
    """Compares the schedules and writes what is asked for."""
    del argv
    costs = load_costs()
    steps = play(costs)
    limit_s = bound_s(costs)
    print(describe(costs))
    print()
    print(table(steps, limit_s))
    print()
    print(f"bound: {_time(limit_s)}, the best step if transmissions cost their bytes only")
    write(steps)


def run() -> None:
    """Runs the command."""
    command.run(main)


if __name__ == "__main__":
    run()
