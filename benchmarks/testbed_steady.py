"""A training around which nothing changes: re-planning at every epoch against a fixed best plan.

    python -m benchmarks.testbed_steady

Both take turns on one cluster, an epoch each; times are the whole epoch's, so that the capture, the
planning and any plan tried out are in them. Writes `results/testbed_steady.json`, and `RESULTS.md`.
"""

from __future__ import annotations

import time

from absl import flags

from benchmarks import testbed_results
from tf_dynacomm.bench.workload import Workload
from tf_dynacomm.tools import command, environment

_MODEL = flags.DEFINE_string("model", "emulated:resnet152:0.03125:0.1:0.2", "What is trained.")
_PAIRS = flags.DEFINE_integer("pairs", 4, "Epochs of each.", lower_bound=1)
_EPOCH_STEPS = flags.DEFINE_integer("epoch_steps", 100, "Steps in each epoch.", lower_bound=1)
_RATE_BYTES_PER_S = 250e6 / 8


def main(argv: list[str]) -> None:
    """Lets epochs with re-planning and without take turns."""
    del argv
    environment.load_tensorflow()
    import tf_dynacomm
    from tf_dynacomm.bench import cells, programs
    from tf_dynacomm.testbed import links
    from tf_dynacomm.testbed.link import Link

    link = Link(_RATE_BYTES_PER_S, _RATE_BYTES_PER_S)
    kept = []
    with programs.running(Workload.parse(_MODEL.value), links.Links(link), 1) as program:
        program.run(2)
        [best] = cells.plan_afresh(program)
        replanner = tf_dynacomm.Replanner(program.strategy)
        for epoch in range(1, _PAIRS.value + 1):
            program.step.set_plan(best)
            kept.append(_epoch(program, "fixed plan", epoch))
            replanner.begin_epoch()
            kept.append(_epoch(program, "re-planned", epoch))
            print(replanner.end_epoch(epoch))
        replanner.close()
    testbed_results.keep("steady", kept)


def _epoch(program, name: str, epoch: int) -> testbed_results.Moment:
    program.run(1)
    start_s = time.perf_counter()
    program.run(_EPOCH_STEPS.value)
    step_s = (time.perf_counter() - start_s) / _EPOCH_STEPS.value
    plan = program.step.plan_of(0)
    segments = (len(plan.pull), len(plan.push)) if plan else (0, 0)
    return testbed_results.Moment(name, epoch, [step_s], *([n] for n in segments))


if __name__ == "__main__":
    command.run(main)
