"""Training programs that the cluster tests share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tf_keras

import tf_dynacomm

_OPTIMIZERS = {
    "momentum": lambda: tf_keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: tf_keras.optimizers.Adam(0.01),
}


def make_strategy(
    cluster_spec: Mapping[str, Sequence[str]],
    *,
    stock: bool = False,
    variable_partitioner=None,
    **kwargs,
):
    """A strategy on a cluster: ours, or stock `ParameterServerStrategy`."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster_spec), rpc_layer="grpc"
    )
    if stock:
        return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner)
    return tf_dynacomm.DynaCommStrategy(resolver, variable_partitioner, **kwargs)


def build_cnn(strategy, optimizer: str = "momentum", *, dropout: float = 0.0) -> tf_keras.Model:
    """A compiled CNN with BatchNorm, the same at every call."""
    tf_keras.utils.set_random_seed(1)
    layers = tf_keras.layers
    with strategy.scope():
        model = tf_keras.Sequential(
            [
                layers.Conv2D(8, 3, use_bias=False, input_shape=(8, 8, 1)),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.Conv2D(16, 3),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.Flatten(),
                layers.Dense(32, activation="relu"),
                *([layers.Dropout(dropout, seed=3)] if dropout else []),
                layers.Dense(10),
            ]
        )
        model.compile(
            _OPTIMIZERS[optimizer](),
            tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    return model


def data() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels, the same at every call."""
    random = np.random.default_rng(0)
    return random.random((64, 8, 8, 1), np.float32), random.integers(0, 10, 64)


def dataset_creator() -> tf_keras.utils.experimental.DatasetCreator:
    """The data as `model.fit` takes it under a parameter-server strategy."""

    def dataset_fn(context):
        del context
        return tf.data.Dataset.from_tensor_slices(data()).repeat().batch(8)

    return tf_keras.utils.experimental.DatasetCreator(dataset_fn)


def per_worker_iterator(strategy):
    """The data as a custom loop takes it."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    creator = dataset_creator()
    return iter(
        coordinator.create_per_worker_dataset(
            lambda: strategy.distribute_datasets_from_function(creator.dataset_fn)
        )
    )
