"""Small models, one for each kind of variable and of use of it."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

from tests.cluster.model_zoo import compiled, dense, stack
from tests.cluster.training import Program

_COLOURS = ["red", "green", "blue"]


def _kernel_layer(keras, kernel, call):
    """A layer that computes `call(inputs, kernel)` with a kernel of its own, `kernel(layer)`."""

    class Custom(keras.layers.Layer):
        def build(self, input_shape):
            self.kernel = kernel(self)
            super().build(input_shape)

        def call(self, inputs):
            return call(inputs, self.kernel)

        def compute_output_shape(self, input_shape):
            return input_shape

    return Custom()


def _mixed_dtypes(keras):
    return stack(keras, dense(keras), dense(keras, 5, dtype="float64"), dense(keras))


def _bfloat16(keras):
    layers = [dense(keras, dtype="mixed_bfloat16") for _ in range(3)]
    return stack(keras, *layers, keras.layers.BatchNormalization(dtype="mixed_bfloat16"))


def _pure_bfloat16(keras):
    return stack(keras, dense(keras), dense(keras, dtype="bfloat16"), dense(keras))


def _tied(keras, *, transposed_first):
    """An autoencoder whose halves share one kernel."""

    class Tied(keras.Model):
        def build(self, input_shape):
            self.kernel = self.add_weight(name="kernel", shape=(8, 8))
            super().build(input_shape)

        def call(self, inputs):
            first, second = self.kernel, tf.transpose(self.kernel)
            if transposed_first:
                first, second = second, first
            return tf.tanh(tf.tanh(inputs @ first) @ second)

    return stack(keras, dense(keras, 8), Tied(), dense(keras))


def _layer_used_twice(keras):
    inputs = keras.Input((8,))
    shared = dense(keras, 8)
    hidden = shared(dense(keras, 8)(shared(inputs)))
    return compiled(keras, keras.Model(inputs, dense(keras, 4)(hidden)))


def _tied_embedding(keras, *, projection_first):
    """A table that looks tokens up and is also the output's projection (or the input's)."""

    class Network(keras.Model):
        def __init__(self):
            super().__init__()
            self.table, self.head = keras.layers.Embedding(40, 6, name="table"), dense(keras, 4)

        def call(self, tokens):
            if not projection_first:
                return self.head(self._projected(tf.reduce_mean(self.table(tokens), axis=1)))
            self.table(tokens[:, :1])
            counts = tf.reduce_sum(tf.one_hot(tokens, 40), axis=1)
            rows = tf.reduce_mean(self.table(tokens), axis=1)
            return self.head(rows + counts @ tf.convert_to_tensor(self.table.embeddings))

        def _projected(self, hidden):
            return tf.matmul(hidden, self.table.embeddings, transpose_b=True)

    return compiled(keras, Network())


def _read_twice(keras):
    return stack(
        keras,
        _kernel_layer(
            keras,
            lambda layer: layer.add_weight(name="scale", shape=(8,), initializer="ones"),
            lambda inputs, scale: tf.tanh(inputs * scale) + tf.sin(scale),
        ),
        dense(keras),
    )


def _frozen(keras):
    frozen = dense(keras, name="frozen")
    frozen.trainable = False
    return stack(keras, dense(keras), frozen, dense(keras))


def _only_regularised(keras):
    def kernel(layer):
        return layer.add_weight(name="only_regularised", shape=(3, 3), regularizer="l2")

    untouched = _kernel_layer(keras, kernel, lambda inputs, kernel: inputs)
    return stack(keras, dense(keras, kernel_regularizer="l1"), untouched, dense(keras))


def _never_touched(keras):
    def kernel(layer):
        return layer.add_weight(name="untouched", shape=(3, 3))

    return stack(keras, _kernel_layer(keras, kernel, lambda inputs, kernel: inputs), dense(keras))


def _off_the_loss(keras):
    """A layer that is computed and whose result does not reach the loss."""
    inputs = keras.Input((8,))
    hidden = dense(keras)(inputs)
    outputs = {"used": dense(keras, 4)(hidden), "unused": dense(keras, 3, name="unused")(hidden)}
    loss = {"used": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    model = keras.Model(inputs, outputs)
    return compiled(keras, model, loss=loss, metrics=None)


def _counter(keras):
    """A whole number that every step raises, and a scale that follows it."""

    class Counter(keras.layers.Layer):
        def build(self, input_shape):
            self.count = self.add_weight(
                name="count", shape=(), dtype="int64", initializer="zeros", trainable=False
            )
            super().build(input_shape)

        def call(self, inputs):
            self.count.assign_add(1)
            return inputs / tf.cast(tf.convert_to_tensor(self.count), inputs.dtype)

    return stack(keras, dense(keras), Counter(), dense(keras))


def _normalised_kernel(keras):
    return stack(
        keras,
        dense(keras, 8),
        _kernel_layer(
            keras,
            lambda layer: layer.add_weight(name="kernel", shape=(8, 8)),
            lambda inputs, kernel: tf.tanh(inputs @ tf.math.l2_normalize(kernel, axis=0)),
        ),
        dense(keras),
    )


def _constants_added(keras):
    """Sums and products of variables and constants, which TensorFlow may order anew."""
    inputs = keras.Input((8,))
    hidden = keras.layers.BatchNormalization()(dense(keras, 8)(inputs)) + 1.0
    hidden = dense(keras, 8, activation=None)(hidden) + 0.3
    hidden = 0.7 + keras.layers.LayerNormalization()(hidden) * 1.1
    return compiled(keras, keras.Model(inputs, dense(keras)(hidden)))


def _embedding(keras, rows=200, **kwargs):
    table = keras.layers.Embedding(rows, 8, name="table", **kwargs)
    return stack(keras, table, keras.layers.Flatten(), dense(keras), shape=(5,))


def _pooled_embeddings(keras):
    inputs = keras.Input((5,), dtype="int64")
    tables = [keras.layers.Embedding(100 + i, 4, name=f"table_{i}") for i in range(3)]
    pooled = [keras.layers.GlobalAveragePooling1D()(table(inputs)) for table in tables]
    joined = keras.layers.Concatenate()(pooled)
    return compiled(keras, keras.Model(inputs, dense(keras, 4)(dense(keras)(joined))))


def _lookup_layer(keras):
    inputs = keras.Input((5,), dtype="string")
    numbers = keras.layers.StringLookup(vocabulary=_COLOURS)(inputs)
    rows = keras.layers.Flatten()(keras.layers.Embedding(4, 3, name="table")(numbers))
    return compiled(keras, keras.Model(inputs, dense(keras, 4)(dense(keras)(rows))))


def _normalization(keras):
    known = keras.layers.Normalization(mean=np.arange(8.0), variance=np.ones(8))
    return stack(keras, known, keras.layers.Rescaling(0.5), dense(keras), dense(keras))


def _sharded(keras):
    return stack(keras, dense(keras, 8), keras.layers.BatchNormalization(), dense(keras, 8))


def _two_shards():
    return tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)


_REFUSES_SHARDS = "Variables in several pieces are refused with Keras 3."

PROGRAMS = {
    "mixed dtypes": Program(_mixed_dtypes, layers=4),
    "mixed_bfloat16": Program(_bfloat16, layers=5),
    "bfloat16": Program(_pure_bfloat16, layers=4),
    "tied": Program(functools.partial(_tied, transposed_first=False), layers=4),
    "tied, transposed first": Program(functools.partial(_tied, transposed_first=True), layers=4),
    "layer used twice": Program(_layer_used_twice, layers=3),
    "tied embedding": Program(
        functools.partial(_tied_embedding, projection_first=False), "tokens", layers=2
    ),
    "tied embedding, projection first": Program(
        functools.partial(_tied_embedding, projection_first=True), "tokens", layers=2
    ),
    "read twice": Program(_read_twice, layers=3),
    "frozen": Program(_frozen, layers=4),
    "only regularised": Program(_only_regularised, layers=4),
    "never touched": Program(_never_touched, unmoved=["untouched"], layers=2),
    "off the loss": Program(_off_the_loss, unmoved=["unused"], layers=2),
    "counter": Program(_counter, unmoved=["count"], layers=3),
    "constants added": Program(_constants_added),
    "normalised kernel": Program(_normalised_kernel, layers=4),
    "embedding": Program(_embedding, "tokens", gathered=["table"], layers=2),
    "regularised embedding": Program(
        functools.partial(_embedding, embeddings_regularizer="l2"), "tokens", layers=3
    ),
    "large embedding": Program(
        functools.partial(_embedding, rows=50_000),
        "tokens",
        gathered=["table"],
        layers=2,
        in_keras_3={"gathered": ["table"], "sparse": (), "layers": 2},
    ),
    "pooled embeddings": Program(_pooled_embeddings, "tokens", gathered=["table"], layers=2),
    "lookup layer": Program(_lookup_layer, "texts", gathered=["table"], layers=2),
    "normalization": Program(_normalization, unmoved=["mean", "variance", "count"], layers=3),
    "sharded": Program(_sharded, layers=4, partitioner=_two_shards(), in_keras_3=_REFUSES_SHARDS),
    "sharded embedding": Program(
        _embedding,
        "tokens",
        gathered=["table"],
        layers=2,
        partitioner=_two_shards(),
        in_keras_3=_REFUSES_SHARDS,
    ),
}
