"""Training programs of Keras 3 that the cluster tests share."""

from __future__ import annotations

import contextlib

import keras
import numpy as np
import tensorflow as tf

from tests.cluster import programs

BATCH = 8


def data() -> tuple[np.ndarray, np.ndarray]:
    """60 images and labels, the same at every call: seven batches and a smaller one."""
    images, labels = programs.data()
    return images[:60], labels[:60]


def dataset() -> tf.data.Dataset:
    """The data in batches."""
    return tf.data.Dataset.from_tensor_slices(data()).batch(BATCH)


class Sequence(keras.utils.PyDataset):
    """The data in batches, made by Python."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        images, labels = data()
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return images[rows], labels[rows]


def build(strategy=None, *, norm=True, optimizer="sgd", **options) -> keras.Model:
    """A compiled CNN with Dropout, the same at every call; without a strategy if `None`.

    `optimizer` is a name, or makes an optimizer.
    """
    keras.utils.set_random_seed(1)
    layers = keras.layers
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = keras.Sequential(
            [
                keras.Input([8, 8, 1]),
                layers.Conv2D(4, 3, activation="relu"),
                *([layers.BatchNormalization()] if norm else []),
                layers.Flatten(),
                layers.Dropout(0.3),
                layers.Dense(10),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = optimizer() if callable(optimizer) else optimizer
        model.compile(optimizer, loss, metrics=["accuracy"], **options)
    return model


def all_weights(model: keras.Model) -> list[np.ndarray]:
    """All that a model and its optimizer have learnt."""
    return [np.asarray(v) for v in (*model.variables, *model.optimizer.variables)]


def pid_of_this_task() -> tf.Tensor:
    """The id of the process that runs the operation."""
    fields = tf.strings.split(tf.io.read_file("/proc/self/stat"))
    return tf.strings.to_number(fields[0], tf.int32)


class Teller(keras.Model):
    """Tells each step's process and first label, and adds up the labels of all."""

    def __init__(self):
        super().__init__()
        self.flatten = keras.layers.Flatten()
        self.dense = keras.layers.Dense(10)
        self.label_sum = keras.metrics.Sum(name="label_sum")

    def call(self, images):
        """Logits."""
        return self.dense(self.flatten(images))

    def _told(self, batch, logs):
        labels = batch[1]
        self.label_sum.update_state(labels)
        return {**logs, "label": labels[0], "pid": pid_of_this_task()}

    def train_step(self, batch):
        """Trains on a batch, and tells."""
        return self._told(batch, super().train_step(batch))

    def test_step(self, batch):
        """Evaluates a batch, and tells."""
        return self._told(batch, super().test_step(batch))

    def predict_step(self, batch):
        """The first pixel and the process, for each image."""
        images, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        first = images[:, 0, 0, 0]
        return first, tf.fill(tf.shape(first), pid_of_this_task())


def build_teller(strategy) -> Teller:
    """A compiled `Teller`."""
    with strategy.scope():
        model = Teller()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, metrics=["accuracy"])
    return model
