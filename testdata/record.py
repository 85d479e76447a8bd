"""Records the traces in `traces/`, from real trainings on this machine.

python testdata/record.py [CASE ...]

Each case trains a small model on a cluster of its own processes, and keeps the traces of a few
steps (packed) beside the record of the step that was traced.
"""

from __future__ import annotations

import dataclasses
import gzip
import pathlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras

import tf_dynacomm
from tf_dynacomm import models, schedulers
from tf_dynacomm.profiling import capture, measure, step_record
from tf_dynacomm.testbed import local_cluster

_FOLDER = pathlib.Path(__file__).parent / "traces"
_IMAGE_SHAPE, _CLASSES, _BATCH_SIZE = (8, 8, 1), 10, 8
_WARMUP_STEPS = 10
_CAPTURE_S = 0.2


def _small_cnn() -> tf_keras.Model:
    return models.build("small_cnn", _IMAGE_SHAPE, _CLASSES)


def _resnet_like() -> tf_keras.Model:
    """Two residual blocks with batch normalization, whose layers are not a chain."""
    layers = tf_keras.layers
    images = tf_keras.Input(_IMAGE_SHAPE)
    features = layers.Conv2D(16, 3, padding="same", use_bias=False)(images)
    for filters in (16, 32):
        branch = layers.Conv2D(filters, 3, padding="same", use_bias=False)(features)
        branch = layers.ReLU()(layers.BatchNormalization()(branch))
        branch = layers.Conv2D(filters, 3, padding="same", use_bias=False)(branch)
        branch = layers.BatchNormalization()(branch)
        shortcut = layers.Conv2D(filters, 1, use_bias=False)(features)
        features = layers.ReLU()(layers.add([branch, shortcut]))
    features = layers.GlobalAveragePooling2D()(features)
    return tf_keras.Model(images, layers.Dense(_CLASSES)(features), name="resnet_like")


@dataclasses.dataclass(frozen=True)
class Case:
    """One recording: a model, the scheduler that it follows, and the size of the cluster."""

    build: Callable[[], tf_keras.Model]
    scheduler: str
    workers: int = 1
    ps: int = 1


CASES = {
    "stock": Case(_small_cnn, "stock"),
    "layer_by_layer": Case(_small_cnn, "layer_by_layer"),
    "dynacomm": Case(_small_cnn, "dynacomm"),
    "two_workers": Case(_small_cnn, "dynacomm", workers=2, ps=2),
    "resnet_like": Case(_resnet_like, "dynacomm"),
}


def record(name: str) -> None:
    """Records a case."""
    case = CASES[name]
    with local_cluster.LocalCluster(case.workers, case.ps) as cluster:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster.cluster_spec), rpc_layer="grpc"
        )
        strategy = tf_dynacomm.DynaCommStrategy(resolver, scheduler=case.scheduler)
        with strategy.scope():
            model = case.build()
            loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(tf_keras.optimizers.SGD(0.1), loss)
        with _Training(strategy, model):
            step = strategy.coordinator.training_step
            if case.scheduler != "stock":
                step.set_plan(_planned(strategy, step, case.scheduler))
                _wait_for_steps(strategy)  # The workers load the new function first.
            _keep(name, strategy, step)


class _Training:
    """A training that goes on while the block lasts."""

    def __init__(self, strategy, model):
        self._strategy, self._model = strategy, model
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._train)

    def __enter__(self):
        coordinator = self._strategy.coordinator
        self._model._cluster_coordinator = coordinator
        self._step = self._model.make_train_function()
        self._data = iter(coordinator.create_per_worker_dataset(self._dataset))
        self._run(_WARMUP_STEPS)
        self._thread.start()

    def __exit__(self, *exc_info):
        self._ended.set()
        self._thread.join()

    def _dataset(self):
        return self._strategy.distribute_datasets_from_function(_dataset)

    def _train(self) -> None:
        while not self._ended.is_set():
            self._run(1)

    def _run(self, steps: int) -> None:
        for _ in range(steps * len(self._strategy.tasks.workers)):
            self._step(self._data)
        self._strategy.coordinator.join()


def _wait_for_steps(strategy) -> None:
    coordinator = strategy.coordinator
    enough = coordinator.steps_finished + _WARMUP_STEPS * len(strategy.tasks.workers)
    while coordinator.steps_finished < enough:
        time.sleep(0.01)


def _dataset(context) -> tf.data.Dataset:
    del context
    random = np.random.default_rng(0)
    images = random.random((64, *_IMAGE_SHAPE), np.float32)
    data = images, random.integers(0, _CLASSES, len(images))
    return tf.data.Dataset.from_tensor_slices(data).repeat().batch(_BATCH_SIZE)


def _planned(strategy, step, scheduler: str) -> tf_dynacomm.Plan:
    """The plan that a scheduler makes from a trace under the starting plan."""
    captured = capture.capture(strategy.tasks, 2 * _CAPTURE_S)
    found = measure.measure(captured.workers[0], captured.ps, step.graph, step.layers, step.plan)
    return schedulers.get(scheduler)(found.costs)


def _keep(name: str, strategy, step) -> None:
    """Records some steps, and keeps their traces under the names of the tasks."""
    target = _FOLDER / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    tasks = strategy.tasks
    names = {a: f"worker_{i}" for i, a in enumerate(tasks.workers)}
    names |= {a: f"ps_{i}" for i, a in enumerate(tasks.ps)}
    with tempfile.TemporaryDirectory() as logdir:
        captured = capture.capture(tasks, _CAPTURE_S, pathlib.Path(logdir))
        for address, task in names.items():
            file = captured.folder / f"{address.replace(':', '_')}.xplane.pb"
            packed = target / f"{task}.xplane.pb.gz"
            packed.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    plans = {worker: step.plan_of(worker) for worker in range(len(tasks.workers))}
    step_record.save(target, step.graph, plans)


if __name__ == "__main__":
    for case_name in sys.argv[1:] or CASES:
        record(case_name)
