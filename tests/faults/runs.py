"""Trainings on a cluster that is disturbed meanwhile, and what is seen of them from the chief."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import tensorflow as tf
import tf_keras
from tensorflow.python.distribute.coordinator import cluster_coordinator

from tests.cluster import programs
from tf_dynacomm.testbed import local_cluster

DEADLINE_S = 120.0
_STEPS_PER_EPOCH = 100
_MAX_EPOCHS = 2000
_POLL_S = 0.01
_PAUSE_S = 0.2


class Run:
    """One training of a small dense net, by our strategy or by stock's.

    Args:
      cluster: The cluster.
      stock: Whether TensorFlow's own strategy is to train.
      units: Width of the net's layers.
      **kwargs: Of the strategy.

    Attributes:
      cluster: The cluster.
      is_stock: Whether stock trains it.
      strategy: The strategy.
      model: The model.
      finished: When the steps ended, and which worker ran each.
      epochs: Epochs that have ended.
      history: What `fit` has returned.
    """

    def __init__(self, cluster: local_cluster.LocalCluster, stock: bool, units: int = 16, **kwargs):
        self.cluster, self.is_stock = cluster, stock
        self.strategy = programs.make_strategy(cluster.cluster_spec, stock=stock, **kwargs)
        self.model = _dense_net(self.strategy, units)
        self.finished: list[tuple[float, int]] = []
        self.epochs = 0
        self.history: dict[str, list[float]] = {}

    @property
    def steps_asked(self) -> int:
        """Steps of the epochs that have ended."""
        return self.epochs * _STEPS_PER_EPOCH

    @property
    def steps_counted(self) -> int:
        """Steps by the optimizer's count."""
        return int(self.model.optimizer.iterations.numpy())

    def train(self, disturb: Callable[[Run], None], callbacks=()) -> None:
        """Trains whole epochs while `disturb(run)` runs in a thread, and until it has returned.

        Raises:
          Exception: Whatever `fit` or `disturb` raises.
        """
        failures: list[Exception] = []
        over = threading.Event()

        def work():
            try:
                disturb(self)
            except Exception as e:
                failures.append(e)
            over.set()

        thread = threading.Thread(target=work, daemon=True)
        with self._watched():
            thread.start()
            self._fit([_Until(self, over), *callbacks])
        thread.join()
        if failures:
            raise failures[0]

    def wait_for_steps(self, count: int, worker: int | None = None) -> None:
        """Waits until so many steps more are finished, of one worker or all."""
        since_s = time.monotonic()
        wait_until(lambda: len(self.steps_since(since_s, worker)) >= count)

    def steps_since(self, since_s: float, worker: int | None = None) -> list[float]:
        """When steps ended after a moment, of one worker or all."""
        return [t for t, w in list(self.finished) if t > since_s and worker in (None, w)]

    def standstill_s(self, since_s: float) -> float:
        """The longest time without a step's end after a moment."""
        return float(np.max(np.diff([since_s, *self.steps_since(since_s)])))

    def _fit(self, callbacks) -> None:
        self.history = self.model.fit(
            data(),
            epochs=_MAX_EPOCHS,
            steps_per_epoch=_STEPS_PER_EPOCH,
            callbacks=callbacks,
            verbose=0,
        ).history

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        execute_on = cluster_coordinator.Closure.execute_on

        def watched(closure, worker):
            execute_on(closure, worker)
            if not isinstance(closure, cluster_coordinator.ResourceClosure):
                self.finished.append((time.monotonic(), worker.worker_index))

        with mock.patch.object(cluster_coordinator.Closure, "execute_on", watched):
            yield


class _Until(tf_keras.callbacks.Callback):
    """Ends a training at the end of the epoch in which something is over."""

    def __init__(self, run: Run, over: threading.Event):
        super().__init__()
        self._run, self._over = run, over

    def on_epoch_end(self, epoch, logs=None):
        self._run.epochs += 1
        self.model.stop_training = self._over.is_set()


class Pauses(tf_keras.callbacks.Callback):
    """Leaves the processor to what a training waits for, such as a worker's start."""

    def on_epoch_end(self, epoch, logs=None):
        """Holds the training up."""
        time.sleep(_PAUSE_S)


@contextlib.contextmanager
def told(owner: object, name: str) -> Iterator[threading.Event]:
    """Tells when a function is called."""
    function, called = getattr(owner, name), threading.Event()

    def telling(*args, **kwargs):
        called.set()
        return function(*args, **kwargs)

    with mock.patch.object(owner, name, telling):
        yield called


def wait_until(happened: Callable[[], bool]) -> None:
    """Waits for something to happen.

    Raises:
      TimeoutError: It does not.
    """
    deadline_s = time.monotonic() + DEADLINE_S
    while not happened():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"Nothing happened within {DEADLINE_S:g} s.")
        time.sleep(_POLL_S)


def data() -> tf_keras.utils.experimental.DatasetCreator:
    """Examples without end."""

    def dataset_fn(context):
        del context
        return tf.data.Dataset.from_tensor_slices(examples(64)).batch(8).repeat()

    return tf_keras.utils.experimental.DatasetCreator(dataset_fn)


def examples(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors, and which quarter of them has the largest sum."""
    vectors = np.random.default_rng(seed).random((count, 16), np.float32)
    return vectors, vectors.reshape(count, 4, 4).sum(2).argmax(1)


def _dense_net(strategy, units: int) -> tf_keras.Model:
    tf_keras.backend.clear_session()  # So that layers get the same names again.
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        dense = tf_keras.layers.Dense
        hidden = [dense(units, activation="relu") for _ in range(3)]
        model = tf_keras.Sequential([tf_keras.Input((16,)), *hidden, dense(4)])
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf_keras.optimizers.SGD(0.01), loss)
    return model
