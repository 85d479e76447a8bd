"""Two workers behind unlike links: a plan for each, against one plan for both.

    python -m benchmarks.testbed_two_links

The links are of 250 and 60 Mbit/s, and computation takes about as long as the slower one, so that
both workers can hide something: behind a link that takes far longer every plan is as slow as it is.
The plans are DynaComm's: of each worker's own costs, and of the mean of both. They take turns on
one cluster. Writes `results/testbed_two_links.json`, and `RESULTS.md`.
"""

from __future__ import annotations

import time

import numpy as np
from absl import flags

from benchmarks import testbed_results
from tf_dynacomm import schedulers
from tf_dynacomm.bench.workload import Workload
from tf_dynacomm.tools import command, environment

_MODEL = flags.DEFINE_string("model", "emulated:resnet152:0.03125:0.5:1.0", "What is trained.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "How often each has its turn.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 8, "Steps of each worker in a turn.", lower_bound=2)
_RATES_BYTES_PER_S = (250e6 / 8, 60e6 / 8)


def main(argv: list[str]) -> None:
    """Lets a plan for each worker and a common one take turns."""
    del argv
    environment.load_tensorflow()
    from tf_dynacomm.bench import cells, programs
    from tf_dynacomm.testbed import links
    from tf_dynacomm.testbed.link import Link

    of_workers = links.Links([Link(rate, rate) for rate in _RATES_BYTES_PER_S])
    with programs.running(Workload.parse(_MODEL.value), of_workers, 2) as program:
        program.run(2)
        own = cells.plan_afresh(program)
        common = schedulers.get("dynacomm")(cells.measure_costs(program).costs)
        turns = {"a plan for each": own, "one plan for both": [common, common]}
        kept = [
            _turn(program, name, number, plans)
            for number in range(_ROUNDS.value + 1)
            for name, plans in turns.items()
        ]
    testbed_results.keep("two_links", [moment for moment in kept if moment.epoch])


def _turn(program, name: str, number: int, plans) -> testbed_results.Moment:
    """Runs a turn; that of number 0 lets the workers load the plans."""
    for worker, plan in enumerate(plans):
        program.step.set_plan(plan, [worker])
    program.run(1)
    since_s = time.perf_counter()
    program.run(_STEPS.value)
    intervals_s = [program.step.intervals_s(since_s, worker) for worker in range(len(plans))]
    return testbed_results.Moment(
        name,
        number,
        [float(np.median(of_worker_s)) for of_worker_s in intervals_s],
        [len(plan.pull) for plan in plans],
        [len(plan.push) for plan in plans],
    )


if __name__ == "__main__":
    command.run(main)
