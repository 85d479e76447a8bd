"""What the benchmarks train: a model by its specification, in a custom loop."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tf_keras

import tf_dynacomm
from tf_dynacomm import models
from tf_dynacomm.bench.workload import Workload
from tf_dynacomm.runtime import steps as steps_lib
from tf_dynacomm.testbed import accelerator, emulated_models, local_cluster
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed import slowness as slowness_lib

_IMAGE_SHAPE = (32, 32, 3)
_CLASSES = 10
_LEARNING_RATE = 0.01


@dataclasses.dataclass(frozen=True)
class Program:
    """A training that can be run for some steps at a time.

    Attributes:
      strategy: Its strategy.
      cluster: Its cluster.
      links: The links of its cluster.
      slowness: How slow its workers are, if they are emulated.
    """

    strategy: tf_dynacomm.DynaCommStrategy
    cluster: local_cluster.LocalCluster
    links: links_lib.Links
    slowness: slowness_lib.Slowness
    _function: tf.types.experimental.PolymorphicFunction
    _iterator: object

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.cluster.cluster_spec["worker"])

    @property
    def step(self) -> steps_lib.Step:
        """The step that it runs; it exists once it has run."""
        return self.strategy.coordinator.training_step

    def run(self, steps: int) -> None:
        """Runs so many steps on each worker, on average, and waits until they have ended."""
        self.schedule(steps)
        self.strategy.coordinator.join()

    def schedule(self, steps: int) -> None:
        """Hands so many steps for each worker to the coordinator."""
        for _ in range(steps * self.workers):
            self.strategy.coordinator.schedule(self._function, args=(self._iterator,))


@contextlib.contextmanager
def running(
    workload: Workload, links: links_lib.Links, workers: int, ps: int = 1, **strategy_options
) -> Iterator[Program]:
    """Starts a cluster and makes a training of it.

    Args:
      workload: What is trained.
      links: The cluster's links.
      workers: Number of workers.
      ps: Number of PS tasks.
      **strategy_options: Further arguments of `DynaCommStrategy`.
    """
    with (
        slowness_lib.Slowness([1.0] * workers) as slowness,
        local_cluster.LocalCluster(workers, ps, links=links) as cluster,
    ):
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster.cluster_spec), rpc_layer="grpc"
        )
        strategy = tf_dynacomm.DynaCommStrategy(resolver, **strategy_options)
        data = slowness.dataset if workload.emulated else _images(workload.batch_size)
        iterator = iter(
            strategy.coordinator.create_per_worker_dataset(
                lambda: strategy.distribute_datasets_from_function(data)
            )
        )
        function = _training_step(strategy, workload)
        yield Program(strategy, cluster, links, slowness, function, iterator)


def _images(batch_size: int):
    """Images and labels without meaning: what they show does not change what a step takes."""

    def dataset(context):
        del context
        random = np.random.default_rng(0)
        images = random.random((batch_size, *_IMAGE_SHAPE), np.float32)
        labels = random.integers(0, _CLASSES, batch_size)
        return tf.data.Dataset.from_tensors((images, labels)).repeat()

    return dataset


def _training_step(strategy, workload: Workload):
    """A function for the coordinator that trains the workload's model by one batch."""
    with strategy.scope():
        model, loss_of = _emulated(workload) if workload.emulated else _real(workload)
        optimizer = tf_keras.optimizers.SGD(_LEARNING_RATE)

    def train(batch):
        with tf.GradientTape() as tape:
            loss = loss_of(model, batch)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss  # Tells a trace's reader where forward computation ends.

    @tf.function
    def step(iterator):
        return strategy.run(train, args=(next(iterator),))

    return step


def _emulated(workload: Workload):
    model = accelerator.build(
        emulated_models.stages(
            workload.model, workload.scale, workload.forward_s, workload.backward_s
        )
    )
    return model, lambda model, slowness: tf.reduce_sum(model(slowness))


def _real(workload: Workload):
    loss = tf_keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf_keras.losses.Reduction.NONE
    )

    def loss_of(model, batch):
        images, labels = batch
        return tf.reduce_mean(loss(labels, model(images, training=True)))

    return models.build(workload.model, _IMAGE_SHAPE, _CLASSES), loss_of
