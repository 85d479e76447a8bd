"""Emulated accelerators: Keras layers that hold parameters, take given times and do no arithmetic.

A worker with such a model asks for its parameters, computes and pushes as one with a fast
accelerator does, and needs next to none of the machine's processors for it. The tensors that travel
through the model are clocks: each tells when the accelerator has done what comes before (seconds
since the epoch, float64). A layer's computation starts when the one before has ended and its own
parameters have come; then the worker sleeps until it has taken its time. So what an operation needs
to get going is no part of the layers' times, as on a device that works off a queue.

    model = build([Stage((Tensors("dense", (1000, 10)),), forward_s=0.01, backward_s=0.02)])

The model's input is how slow the worker is: 1.0 for the given times, 2.0 for twice as long.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf
import tf_keras
from tensorflow.core.framework import dataset_options_pb2

_TRACE = 1e-20  # Small enough to change nothing; but what is multiplied by it has to be there.
_US = 1e6
_BESIDE_S = 0.4e-3  # From the reading of the clock to the sleep, and from its end to the waking.


@dataclasses.dataclass(frozen=True)
class Tensors:
    """A layer's parameters: its name, and the number of elements of each tensor (float32)."""

    name: str
    sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Stage:
    """The layers at one depth of a network, which the accelerator computes together.

    Attributes:
      layers: Beside each other.
      forward_s: Seconds of their forward computation.
      backward_s: Seconds of their backward computation.

    Raises:
      ValueError: There is no layer, or a time is negative or not finite.
    """

    layers: tuple[Tensors, ...]
    forward_s: float
    backward_s: float

    def __post_init__(self):
        if not self.layers:
            raise ValueError("`layers` (empty) must have at least one layer.")
        for name in ("forward_s", "backward_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` ({getattr(self, name)}) must be finite, not negative.")


def build(stages: Sequence[Stage], name: str = "emulated") -> tf_keras.Model:
    """Builds a model whose stages follow one another.

    Args:
      stages: In forward order.
      name: The model's name.

    Returns:
      A model from how slow the worker is (shape (1,), float64) to a loss (shape (1,), float32).
    """
    slowness = tf_keras.Input((), dtype=tf.float64, name="slowness")
    clock = _Start(name="start")(slowness)
    for stage in stages:
        clocks = [_Parameters(layer.sizes, name=layer.name)(clock) for layer in stage.layers]
        compute = _Compute(stage.forward_s, stage.backward_s, name=f"{stage.layers[0].name}_time")
        clock = compute([*clocks, slowness])
    return tf_keras.Model(slowness, _Turn(name="loss")(clock), name=name)


class _Layer(tf_keras.layers.Layer):
    """A layer that leaves clocks their precision."""

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)


class _Start(_Layer):
    """Reads the time at which a step begins."""

    def call(self, slowness):
        with tf.control_dependencies([slowness]):
            return tf.fill(tf.shape(slowness), tf.timestamp())


class _Parameters(_Layer):
    """Holds tensors: waits for them forward, and makes their gradients backward."""

    def __init__(self, sizes: Sequence[int], **kwargs):
        super().__init__(**kwargs)
        self._sizes = sizes

    def build(self, input_shape):
        for number, size in enumerate(self._sizes):
            self.add_weight(f"tensor{number}", (size,), initializer="zeros")

    def call(self, clock):
        @tf.custom_gradient
        def computed(clock, *values):
            def gradients(clock_back):
                marks = [_mark(clock_back)] * len(values)
                return clock_back, *map(tf.fill, [[size] for size in self._sizes], marks)

            # Where parameters and input meet tells the layer's place in the data flow.
            clock, *_ = tf.raw_ops.IdentityN(input=[clock, *values])
            return tf.maximum(clock, _arrival_s(values)), gradients

        return computed(clock, *map(tf.convert_to_tensor, self.trainable_weights))


def _arrival_s(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """When all values have come."""
    element = tf.add_n([value[0] for value in values])
    with tf.control_dependencies([element]):
        return tf.timestamp() + _TRACE * tf.cast(element, tf.float64)


def _mark(clock: tf.Tensor) -> tf.Tensor:
    """A number that cannot be known before the clock."""
    return tf.cast(_TRACE * clock[0], tf.float32)


class _Compute(_Layer):
    """Takes a stage's time, forward and backward."""

    def __init__(self, forward_s: float, backward_s: float, **kwargs):
        super().__init__(**kwargs)
        self._forward_s, self._backward_s = forward_s, backward_s

    def call(self, inputs):
        *clocks, slowness = inputs

        @tf.custom_gradient
        def computed(*clocks):
            def gradients(clock_back):
                end = _sleep_until(clock_back + slowness * self._backward_s)
                return [end / len(clocks)] * len(clocks)  # They are added where layers part.

            start = tf.reduce_max(tf.stack(clocks), axis=0)
            return _sleep_until(start + slowness * self._forward_s), gradients

        return computed(*clocks)


class _Turn(_Layer):
    """Turns from forward to backward: a loss whose gradient is the time."""

    def call(self, clock):
        @tf.custom_gradient
        def loss(clock):
            def gradients(upstream):
                with tf.control_dependencies([upstream]):
                    now = tf.timestamp()
                return tf.maximum(clock, now + _TRACE * tf.cast(upstream, tf.float64))

            return tf.cast(_TRACE * clock, tf.float32), gradients

        return loss(clock)


def _sleep_until(clock: tf.Tensor) -> tf.Tensor:
    """Passes a clock on when it is that late.

    The operation that sleeps is `IteratorGetNextSync`, which a trace shows with its duration, as it
    does not show asynchronous ones.
    """
    element = tf.raw_ops.TensorDataset(components=[clock], output_shapes=[clock.shape])
    iterator = tf.raw_ops.AnonymousIteratorV3(**_type(clock))
    with tf.control_dependencies([element, iterator]):  # What takes time comes before it is read.
        rest_s = tf.maximum(clock[0] - tf.timestamp() - _BESIDE_S, 0.0)
    sleeping = tf.raw_ops.SleepDataset(
        input_dataset=element, sleep_microseconds=tf.cast(rest_s * _US, tf.int64), **_type(clock)
    )
    bare = tf.raw_ops.OptionsDataset(
        input_dataset=sleeping, serialized_options=_BARE, **_type(clock)
    )
    # By its data, and not by control alone, the sleep depends on what it follows.
    ready, _ = tf.raw_ops.IdentityN(input=[iterator, clock])
    with tf.control_dependencies([tf.raw_ops.MakeIterator(dataset=bare, iterator=iterator)]):
        return tf.raw_ops.IteratorGetNextSync(iterator=ready, **_type(clock))[0]


def _type(tensor: tf.Tensor) -> dict:
    return {"output_types": [tensor.dtype], "output_shapes": [tensor.shape]}


def _bare_options() -> bytes:
    """Keeps tf.data from rewriting and tuning a data set of one element."""
    options = dataset_options_pb2.Options(warm_start=False)
    options.autotune_options.enabled = False
    options.optimization_options.apply_default_optimizations = False
    options.optimization_options.inject_prefetch = False
    return options.SerializeToString()


_BARE = _bare_options()
