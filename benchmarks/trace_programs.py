"""Trainings behind a shaped link that are traced while they run."""

from __future__ import annotations

import contextlib
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from tf_dynacomm import schedulers
from tf_dynacomm.bench import workload as workload_lib
from tf_dynacomm.testbed import link as link_lib

if TYPE_CHECKING:
    from tf_dynacomm.bench import programs
    from tf_dynacomm.profiling import capture, measure
    from tf_dynacomm.testbed import accelerator

MBIT_PER_S = flags.DEFINE_float("mbit_per_s", 200.0, "Rate of the link, both ways.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 8, "Images in a step of a real model.")

TRACED_STEPS = 8
WARM_STEPS = 3
MIN_CAPTURE_S = 0.2


def workload(name: str) -> workload_lib.Workload:
    """A workload by its specification."""
    return workload_lib.Workload.parse(name, _BATCH_SIZE.value)


@contextlib.contextmanager
def running(what: workload_lib.Workload) -> Iterator[programs.Program]:
    """Starts a training with one worker behind the link, and warms it up."""
    from tf_dynacomm.bench import programs
    from tf_dynacomm.testbed import links

    with programs.running(what, links.Links([_link(0.0)]), workers=1) as program:
        program.run(WARM_STEPS)
        yield program


@contextlib.contextmanager
def running_stages(
    stages: Sequence[accelerator.Stage], latency_s: float
) -> Iterator[programs.Program]:
    """Starts a training of stages on an emulated accelerator behind the link, and warms it up."""
    import tensorflow as tf
    import tf_keras

    from tf_dynacomm import DynaCommStrategy
    from tf_dynacomm.bench import programs
    from tf_dynacomm.testbed import accelerator, links, local_cluster, slowness

    made = links.Links([_link(latency_s)])
    with slowness.Slowness([1.0]) as slow, local_cluster.LocalCluster(1, 1, links=made) as cluster:
        spec = tf.train.ClusterSpec(cluster.cluster_spec)
        strategy = DynaCommStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
        )
        data = strategy.coordinator.create_per_worker_dataset(
            lambda: strategy.distribute_datasets_from_function(slow.dataset)
        )
        with strategy.scope():
            model = accelerator.build(stages)
            optimizer = tf_keras.optimizers.SGD(0.01)

        def train(slowness):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(slowness))
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss  # What is reported tells the forward from the backward pass of layer L.

        step = tf.function(lambda iterator: strategy.run(train, args=(next(iterator),)))
        program = programs.Program(strategy, cluster, made, slow, step, iter(data))
        program.run(WARM_STEPS)
        yield program


def _link(latency_s: float) -> link_lib.Link:
    rate_bytes_per_s = MBIT_PER_S.value * 1e6 / 8
    return link_lib.Link(rate_bytes_per_s, rate_bytes_per_s, latency_s)


def traced(
    program: programs.Program, steps: int = TRACED_STEPS, logdir: pathlib.Path | None = None
) -> capture.Capture:
    """Takes a trace of about so many steps, while some more run."""
    from tf_dynacomm.profiling import capture

    since_s = time.perf_counter()
    program.run(WARM_STEPS)
    step_s = float(np.median(program.step.intervals_s(since_s)))
    duration_s = max(steps * step_s, MIN_CAPTURE_S)
    program.schedule(int(duration_s / step_s) + 2 * WARM_STEPS)
    captured = capture.capture(program.strategy.tasks, duration_s, logdir)
    program.strategy.coordinator.join()
    return captured


def measured(
    program: programs.Program, prior: measure.Measurement | None = None
) -> tuple[measure.Measurement, float]:
    """Measures the plan in force: what its trace says, and the seconds of a step outside of it."""
    since_s = time.perf_counter()
    found = read(program, traced(program), prior)
    outside_s = float(np.median(program.step.intervals_s(since_s))) - found.span_s
    return found, max(outside_s, 0.0)


def read(
    program: programs.Program, captured: capture.Capture, prior: measure.Measurement | None = None
) -> measure.Measurement:
    """Reads the costs of the plan in force."""
    from tf_dynacomm.profiling import measure

    step, worker = program.step, captured.workers[0]
    return measure.measure(worker, captured.ps, step.graph, step.layers, step.plan, prior)


def epochs(program: programs.Program, steps: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of epochs without and with a trace that is planned from; they take turns."""
    found = {name: [] for name in _MEANWHILE}
    for number in range(rounds):
        for name in list(found)[:: -1 if number % 2 else 1]:
            found[name].append(_epoch_s(program, steps, _MEANWHILE[name]))
    return found


def _epoch_s(program: programs.Program, steps: int, meanwhile: Callable) -> float:
    """Seconds of an epoch, in which something is done on another thread."""
    thread = threading.Thread(target=meanwhile, args=(program,))
    begin_s = time.perf_counter()
    program.schedule(steps)
    thread.start()
    program.strategy.coordinator.join()
    seconds = time.perf_counter() - begin_s
    thread.join()
    return seconds


def _plan(program: programs.Program) -> None:
    """Plans anew from a trace, as training does."""
    from tf_dynacomm.profiling import capture

    step_s = float(np.median(program.step.intervals_s()))
    captured = capture.capture(program.strategy.tasks, max(TRACED_STEPS * step_s, MIN_CAPTURE_S))
    schedulers.get("dynacomm")(read(program, captured).costs)


_MEANWHILE: dict[str, Callable] = {"without": lambda program: None, "with": _plan}
