"""Checks that an emulated accelerator takes the time that it was asked for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_dynacomm.testbed import accelerator

_STEPS = 5
_TOLERANCE = 0.03


@dataclasses.dataclass(frozen=True)
class Check:
    """What a check has shown.

    Attributes:
      asked_s: Seconds of computation that were asked for.
      taken_s: Median seconds of a step in this process, all parameters being at hand.
    """

    asked_s: float
    taken_s: float

    @property
    def holds(self) -> bool:
        """Whether they are within 3 % of each other."""
        return abs(self.taken_s - self.asked_s) <= _TOLERANCE * self.asked_s


def check(stages: Sequence[accelerator.Stage], steps: int = _STEPS) -> Check:
    """Runs forward and backward computation alone; TensorFlow needs a thread or two to itself.

    Args:
      stages: What is emulated.
      steps: How many steps to take the median of.
    """
    model = accelerator.build(stages)

    @tf.function
    def compute(slowness):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(slowness))
        gradients = tape.gradient(loss, model.trainable_variables)
        return [gradient[0] for gradient in gradients]

    slowness = tf.ones([1], tf.float64)
    compute(slowness)
    times_s = [_time_s(compute, slowness) for _ in range(steps)]
    asked_s = sum(stage.forward_s + stage.backward_s for stage in stages)
    return Check(asked_s, float(np.median(times_s)))


def _time_s(function, *args) -> float:
    start_s = time.perf_counter()
    function(*args)
    return time.perf_counter() - start_s
