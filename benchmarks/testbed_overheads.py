"""What planning costs a training, on the real path: the paper's tables of overheads.

    python -m benchmarks.testbed_overheads

Scheduling: how long DynaComm takes for a plan from costs that are measured in training, beside the
time in which a worker waits for its last push (Δt and the push of layer 1), into which the paper
puts it. Profiling: an epoch in which a trace is taken, read and planned from, against one without.
The four models are at 1/32 scale, with 0.05 s of forward and 0.1 s of backward computation, on a
link of 1 Gbit/s. Writes `results/testbed_overheads.json`, and `RESULTS.md`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from absl import flags

from benchmarks import testbed_results, trace_programs
from tf_dynacomm.bench.workload import Workload
from tf_dynacomm.schedulers import dynacomm
from tf_dynacomm.tools import command, environment

_MODELS = flags.DEFINE_list(
    "models",
    [
        f"emulated:{model}:0.03125:0.05:0.1"
        for model in ("vgg19", "googlenet", "inception_v4", "resnet152")
    ],
    "What is trained.",
)
_EPOCH_STEPS = flags.DEFINE_integer("epoch_steps", 100, "Steps of an epoch.", lower_bound=20)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds of epochs.", lower_bound=1)
_RATE_BYTES_PER_S = 1e9 / 8
_RUNS = 9


def main(argv: list[str]) -> None:
    """Measures one model after the other."""
    del argv
    environment.load_tensorflow()
    from tf_dynacomm.bench import cells, programs
    from tf_dynacomm.testbed import links
    from tf_dynacomm.testbed.link import Link

    link = Link(_RATE_BYTES_PER_S, _RATE_BYTES_PER_S)
    kept = []
    for model in _MODELS.value:
        with programs.running(Workload.parse(model), links.Links(link), 1) as program:
            program.run(trace_programs.WARM_STEPS)
            costs = cells.measure_costs(program).costs
            epochs_s = trace_programs.epochs(program, _EPOCH_STEPS.value, _ROUNDS.value)
        kept.append(_overhead(model, costs, epochs_s))
    testbed_results.keep("overheads", kept)


def _overhead(model: str, costs, epochs_s) -> testbed_results.Overhead:
    pairs = zip(epochs_s["without"], epochs_s["with"], strict=True)
    return testbed_results.Overhead(
        model=model,
        layers=len(costs),
        schedule_pulls_s=_median_s(
            lambda: dynacomm.best_ends(costs.pull_s, costs.forward_s, costs.overhead_pull_s)
        ),
        schedule_pushes_s=_median_s(
            lambda: dynacomm.best_ends(costs.push_s, costs.backward_s, costs.overhead_push_s)
        ),
        waiting_s=float(costs.overhead_push_s + costs.push_s[0]),
        epoch_s=statistics.median(epochs_s["without"]),
        traced_share=statistics.median(traced_s / s - 1 for s, traced_s in pairs),
    )


def _median_s(search: Callable[[], object]) -> float:
    times_s = []
    for _ in range(_RUNS):
        begin_s = time.perf_counter()
        search()
        times_s.append(time.perf_counter() - begin_s)
    return statistics.median(times_s)


if __name__ == "__main__":
    command.run(main)
