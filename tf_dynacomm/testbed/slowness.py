"""How slow each worker's emulated accelerator is, to be changed while a training runs."""

from __future__ import annotations

import math
import pathlib
import tempfile
from collections.abc import Sequence

import tensorflow as tf

from tf_dynacomm import files


class Slowness:
    """Factors by which workers take longer than a model says; also the model's data.

    Workers read their factors from files, so that all of them must be on this machine.

        with Slowness([1.0, 2.0]) as slowness:  # Worker 1 is half as fast.
            iterator = iter(
                coordinator.create_per_worker_dataset(
                    lambda: strategy.distribute_datasets_from_function(slowness.dataset)
                )
            )

    Args:
      factors: The factor of each worker.

    Raises:
      ValueError: A factor is not positive or not finite.
    """

    def __init__(self, factors: Sequence[float]):
        self._folder = tempfile.TemporaryDirectory(prefix="dynacomm-slowness-")
        for worker, factor in enumerate(factors):
            self.set(worker, factor)

    def __enter__(self) -> Slowness:
        return self

    def __exit__(self, *exc_info) -> None:
        self._folder.cleanup()

    def set(self, worker: int, factor: float) -> None:
        """Makes a worker take `factor` times as long as the model says, from its next step on.

        Raises:
          ValueError: `factor` is not positive or not finite.
        """
        if not 0 < factor < math.inf:
            raise ValueError(f"`factor` ({factor}) must be positive and finite.")
        files.write_text(pathlib.Path(self._folder.name, f"{worker}"), f"{factor}")

    def dataset(self, context: tf.distribute.InputContext) -> tf.data.Dataset:
        """Makes a worker's data: its factor, again and again; shape (1,), float64."""
        del context  # It says the same to all workers.
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        file = tf.strings.join([self._folder.name, "/", tf.as_string(worker)])

        def read(file: tf.Tensor) -> tf.Tensor:
            return tf.strings.to_number(tf.io.read_file(file), tf.float64)[tf.newaxis]

        return tf.data.Dataset.from_tensors(file).repeat().map(read)
