"""A training whose surroundings change half-way, with re-planning and without.

    python -m benchmarks.testbed_adaptation --change=link
    python -m benchmarks.testbed_adaptation --change=worker

`link`: one worker, whose link goes from 250 to 60 Mbit/s. `worker`: two workers, one of which
becomes three times as slow. All runs are on one cluster and begin with the plan that DynaComm makes
of costs measured before the change; `fresh` is what such a plan gets that is measured after it.
Writes `results/testbed_<change>_change.json`, and `RESULTS.md`.
"""

from __future__ import annotations

import time

import numpy as np
from absl import flags

from benchmarks import testbed_results
from tf_dynacomm.tools import command, environment

_CHANGE = flags.DEFINE_enum("change", "link", ["link", "worker"], "What changes.")
_MODEL = flags.DEFINE_string("model", "emulated:resnet152:0.03125:0.125:0.25", "What is trained.")
_EPOCHS = flags.DEFINE_integer("epochs", 6, "Epochs; the change comes half-way.", lower_bound=2)
_EPOCH_STEPS = flags.DEFINE_integer("epoch_steps", 40, "Steps in each epoch.", lower_bound=1)

_BEFORE_BYTES_PER_S, _AFTER_BYTES_PER_S = 250e6 / 8, 60e6 / 8
_SLOWNESS = 3.0


def _surroundings(program, changed: bool) -> None:
    from tf_dynacomm.bench import cells

    if _CHANGE.value == "link":
        cells.set_rate(program, _AFTER_BYTES_PER_S if changed else _BEFORE_BYTES_PER_S)
    else:
        program.slowness.set(0, _SLOWNESS if changed else 1.0)
    program.run(3)  # Until data that was fetched before the change is used up.


def _train(program, name: str, *, replan: bool) -> list[testbed_results.Moment]:
    import tf_dynacomm
    from tf_dynacomm.bench import cells

    _surroundings(program, changed=False)
    cells.plan_afresh(program)
    replanner = tf_dynacomm.Replanner(program.strategy)
    moments = []
    for epoch in range(1, _EPOCHS.value + 1):
        if epoch == _EPOCHS.value // 2 + 1:
            _surroundings(program, changed=True)
        if replan:
            replanner.begin_epoch()
        since_s = time.perf_counter()
        program.run(_EPOCH_STEPS.value)
        moments.append(_moment(program, name, epoch, since_s))
        if replan:
            print(replanner.end_epoch(epoch))
    replanner.close()
    return moments


def _moment(program, name: str, epoch: int, since_s: float) -> testbed_results.Moment:
    step, workers = program.step, range(program.workers)
    plans = [step.plan_of(worker) for worker in workers]
    return testbed_results.Moment(
        name,
        epoch,
        [float(np.median(step.intervals_s(since_s, worker))) for worker in workers],
        [len(plan.pull) if plan else 0 for plan in plans],
        [len(plan.push) if plan else 0 for plan in plans],
    )


def main(argv: list[str]) -> None:
    """Trains with and without re-planning."""
    del argv
    environment.load_tensorflow()
    from tf_dynacomm.bench import cells, programs
    from tf_dynacomm.bench.workload import Workload
    from tf_dynacomm.testbed import links
    from tf_dynacomm.testbed.link import Link

    link = Link(_BEFORE_BYTES_PER_S, _BEFORE_BYTES_PER_S)
    workers = 1 if _CHANGE.value == "link" else 2
    workload = Workload.parse(_MODEL.value)
    with programs.running(workload, links.Links(link), workers) as program:
        program.run(2)
        kept = _train(program, "plan kept", replan=False)
        kept += _train(program, "re-planned", replan=True)
        cells.plan_afresh(program)  # The surroundings are as after the change.
        since_s = time.perf_counter()
        program.run(_EPOCH_STEPS.value)
        kept.append(_moment(program, "fresh", _EPOCHS.value, since_s))
    testbed_results.keep(f"{_CHANGE.value}_change", kept)


if __name__ == "__main__":
    command.run(main)
