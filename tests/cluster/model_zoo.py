"""Small models, one for each kind of network that a user may bring."""

from __future__ import annotations

import functools

import tensorflow as tf

from tests.cluster.training import Program


def compiled(keras, model, optimizer=None, **kwargs):
    """Compiles a classifier of 4 classes; returns it."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    kwargs = {"loss": loss, "metrics": ["accuracy"]} | kwargs
    model.compile(optimizer or keras.optimizers.SGD(0.1, momentum=0.9), **kwargs)
    return model


def dense(keras, units=6, **kwargs):
    """A small dense layer."""
    return keras.layers.Dense(units, **{"activation": "tanh"} | kwargs)


def _logits(keras, **kwargs):
    return keras.layers.Dense(4, **kwargs)


def stack(keras, *layers, shape=(8,), optimizer=None, **kwargs):
    """A compiled sequential model of the layers and a last one that classifies."""
    model = keras.Sequential([keras.Input(shape), *layers, _logits(keras, name="logits")])
    return compiled(keras, model, optimizer, **kwargs)


def _sequential(keras):
    return stack(keras, dense(keras), dense(keras))


def _one_element(keras):
    """TensorFlow multiplies tensors of one element in the order of their names."""
    one = (dense(keras, 1, bias_regularizer="l2"), dense(keras, 1, use_bias=False))
    return stack(keras, dense(keras), *one, optimizer=keras.optimizers.RMSprop(0.01))


def _branches(keras):
    inputs = keras.Input((8,))
    stem = dense(keras, name="stem")(inputs)
    left, right = (dense(keras, name=name)(stem) for name in ("left", "right"))
    joined = keras.layers.Concatenate()([left, right, stem])
    return compiled(keras, keras.Model(inputs, _logits(keras)(joined)))


def _subclassed(keras):
    class Block(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = dense(keras, 8), dense(keras, 8)

        def call(self, inputs):
            return self.second(self.first(inputs)) + inputs

    class Network(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks, self.head = [Block(), Block()], _logits(keras)

        def call(self, inputs, training=False):
            for block in self.blocks:
                inputs = block(inputs, training=training)
            return self.head(inputs)

    return compiled(keras, Network())


def _convolutions(keras):
    layers = keras.layers
    return stack(
        keras,
        layers.Conv2D(3, 3, use_bias=False),
        layers.BatchNormalization(),
        layers.DepthwiseConv2D(2, activation="relu"),
        layers.BatchNormalization(momentum=0.7),
        layers.LayerNormalization(),
        layers.Flatten(),
        shape=(6, 6, 2),
    )


def _batch_norm_for_inference(keras):
    frozen = keras.layers.BatchNormalization(name="frozen")
    frozen.trainable = False
    return stack(keras, dense(keras), frozen, dense(keras), keras.layers.BatchNormalization())


def _recurrent(keras, cell):
    layer = getattr(keras.layers, cell)
    first, second = layer(4, return_sequences=True), layer(4)
    return stack(keras, first, second, shape=(5, 4))


def _bidirectional(keras):
    return stack(keras, keras.layers.Bidirectional(keras.layers.LSTM(3)), shape=(5, 4))


def _attention(keras):
    inputs = keras.Input((5, 4))
    attended = keras.layers.MultiHeadAttention(2, 3)(inputs, inputs)
    pooled = keras.layers.GlobalAveragePooling1D()(attended)
    return compiled(keras, keras.Model(inputs, _logits(keras)(pooled)))


def _layer(keras, call):
    """A layer with two dense layers in it, called as `call(first, second, inputs)`."""

    class Custom(keras.layers.Layer):
        def build(self, input_shape):
            self.first, self.second = (dense(keras, 8) for _ in range(2))
            for layer in (self.first, self.second):
                with tf.name_scope(layer.name):
                    layer.build(input_shape)
            super().build(input_shape)

        def call(self, inputs):
            return call(self.first, self.second, inputs)

        def compute_output_shape(self, input_shape):
            return input_shape

    return stack(keras, dense(keras, 8), Custom())


@tf.function
def _both(first, second, inputs):
    return second(first(inputs))


@tf.function(jit_compile=True)
def _squared(inputs):
    return tf.square(inputs)


def _squared_between(first, second, inputs):
    return second(_squared(first(inputs)))


def _one_or_other(first, second, inputs):
    positive = tf.reduce_sum(inputs) > 0
    return tf.cond(positive, lambda: first(inputs), lambda: second(inputs))


def _three_times(first, second, inputs):
    def body(i, x):
        return i + 1, second(first(x))

    return tf.while_loop(lambda i, x: i < 3, body, (0, inputs))[1]


def _autograph_loop(first, second, inputs):
    @tf.function
    def loop(x):
        for _ in tf.range(2):
            x = first(x) if tf.reduce_mean(x) > 0 else second(x)
        return x

    return loop(inputs)


def _recomputed(first, second, inputs):
    return tf.recompute_grad(lambda x: second(first(x)))(inputs)


def _mapped(first, second, inputs):
    return tf.map_fn(lambda row: second(first(row[None]))[0], inputs)


def _custom_train_step(keras):
    class Network(keras.Model):
        def train_step(self, batch):
            inputs, labels = batch
            with tf.GradientTape() as tape:
                logits = self(inputs, training=True)
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                )
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss, "norm": tf.linalg.global_norm(gradients)}

    inputs = keras.Input((8,))
    model = Network(inputs, _logits(keras)(dense(keras)(inputs)))
    model.compile(keras.optimizers.Adam(0.01))
    return model


def _gan(keras):
    class Gan(keras.Model):
        def __init__(self):
            super().__init__()
            self.maker = keras.Sequential([keras.Input((8,)), dense(keras), dense(keras, 8)])
            self.judge = keras.Sequential(
                [keras.Input((8,)), dense(keras), dense(keras, 1, activation=None)]
            )

        def compile(self):
            super().compile()
            self.maker_optimizer = keras.optimizers.Adam(0.01)
            self.judge_optimizer = keras.optimizers.SGD(0.05, momentum=0.5)

        def call(self, inputs):
            return self.judge(self.maker(inputs))

        def train_step(self, batch):
            real, _ = batch
            judged = self._descend(self.judge, self.judge_optimizer, self._judge_loss, real)
            made = self._descend(self.maker, self.maker_optimizer, self._maker_loss, real)
            return {"judge": judged, "maker": made}

        def _judge_loss(self, real):
            return tf.reduce_mean(self(real)) - tf.reduce_mean(self.judge(real))

        def _maker_loss(self, real):
            return -tf.reduce_mean(self(real))

        def _descend(self, part, optimizer, loss_of, real):
            with tf.GradientTape() as tape:
                loss = loss_of(real)
            gradients = tape.gradient(loss, part.trainable_variables)
            optimizer.apply_gradients(zip(gradients, part.trainable_variables, strict=True))
            return loss

    model = Gan()
    model.compile()
    return model


def _added_losses(keras):
    class Penalty(keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(0.01 * tf.reduce_sum(inputs**2))
            return inputs

    metrics = ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)]
    return stack(keras, dense(keras), Penalty(), dense(keras), metrics=metrics)


def _several_steps_per_call(keras):
    return stack(keras, dense(keras), dense(keras), steps_per_execution=2)


def _around_layers(call) -> Program:
    """A program whose custom layer reads its weights within a condition or loop, as it must."""
    return Program(functools.partial(_layer, call=call), unmoved=["custom"], layers=2)


_CELLS_READ = {"unmoved": ["lstm"], "layers": 1}  # Keras 3's cells read weights in their loop.

PROGRAMS = {
    "sequential": Program(_sequential, layers=3),
    "branches": Program(_branches, layers=3),
    "subclassed": Program(_subclassed, layers=5),
    "convolutions": Program(_convolutions, "images", layers=6),
    "BatchNorm for inference": Program(_batch_norm_for_inference, layers=5),
    "RNN": Program(
        functools.partial(_recurrent, cell="SimpleRNN"), "sequences", unmoved=["rnn"], layers=1
    ),
    "LSTM": Program(
        functools.partial(_recurrent, cell="LSTM"), "sequences", layers=3, in_keras_3=_CELLS_READ
    ),
    "bidirectional": Program(_bidirectional, "sequences", layers=2, in_keras_3=_CELLS_READ),
    "attention": Program(_attention, "sequences", layers=3),
    "tf.function": Program(functools.partial(_layer, call=_both), layers=4),
    "one element": Program(_one_element, layers=4),
    "XLA": Program(functools.partial(_layer, call=_squared_between), layers=4),
    "tf.cond": _around_layers(_one_or_other),
    "tf.while_loop": _around_layers(_three_times),
    "AutoGraph": _around_layers(_autograph_loop),
    "recompute_grad": Program(functools.partial(_layer, call=_recomputed), layers=4),
    "map_fn": _around_layers(_mapped),
    "custom train_step": Program(_custom_train_step, layers=2),
    "GAN": Program(_gan, layers=4),
    "added losses": Program(_added_losses, layers=3),
    "steps_per_execution": Program(_several_steps_per_call, layers=3),
}
