"""The functions that Keras's trainer calls for each execution: they schedule steps on workers."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf

from tf_dynacomm.keras3 import data, internals

_IN_FLIGHT_PER_WORKER = 8


class WorkerFunction:
    """A step of a model, scheduled on the workers.

    Args:
      strategy: The strategy.
      step: The model's `train_step`, `test_step` or `predict_step`.
    """

    def __init__(self, strategy, step: Callable):
        @tf.autograph.experimental.do_not_convert
        def run(source):
            iterates = isinstance(source, tf.data.Iterator | tf.distribute.DistributedIterator)
            batch = internals.without_optionals(next(source)) if iterates else source
            return _run_on_this_worker(strategy, step, batch)

        self._run = run
        self._functions: list[tuple] = []
        self._coordinator = strategy.coordinator

    def schedule(self, source, spec=None) -> tf.distribute.coordinator.RemoteValue:
        """Schedules the step.

        Args:
          source: A batch, or the workers' iterators.
          spec: The type of all batches, the last and smaller one included; the step is traced for
            each new shape if `None`.
        """
        return self._coordinator.schedule(self._function_of(spec), args=(source,))

    def _function_of(self, spec):
        """The step for batches of one type, traced once."""
        if None in keras.tree.flatten(spec):  # A signature has no word for what is missing.
            spec = None
        for known, function in self._functions:
            if known == spec:
                return function
        signature = None if spec is None else [spec]
        function = tf.function(self._run, input_signature=signature, reduce_retracing=True)
        self._functions.append((spec, function))
        return function

    def drain(self) -> None:
        """Waits for all that is scheduled, whatever becomes of it."""
        with contextlib.suppress(Exception):
            self._coordinator.join()


class EpochFunction:
    """What a trainer calls for each execution of training or evaluation.

    It keeps several steps in flight for each worker. The logs that it returns are those of the
    latest step to have come back; in the epoch's end, after `wait`, the same dictionary has the
    last step's. Logs that were lost with a worker are left out.

    Args:
      strategy: The strategy.
      step: The model's `train_step` or `test_step`.
      steps_per_execution: Steps to schedule at each call.
    """

    def __init__(self, strategy, step: Callable, steps_per_execution: int):
        self._function = WorkerFunction(strategy, step)
        self._steps_per_execution = steps_per_execution
        self._max_in_flight = _max_in_flight(strategy)
        self._in_flight: collections.deque = collections.deque()
        self._logs: dict | None = None

    def __call__(self, batches: Iterator) -> dict:
        """Schedules the next steps.

        Args:
          batches: A stream of `data`; or another iterator, whose steps are waited for.

        Raises:
          StopIteration: If there are no batches left.
        """
        if isinstance(batches, data.ChiefStream | data.WorkerStream):
            return self._scheduled(batches.take, batches.spec)
        self._scheduled(functools.partial(next, batches), None)
        return self.wait()

    def _scheduled(self, take: Callable, spec) -> dict:
        for number in range(self._steps_per_execution):
            try:
                source = take()
            except StopIteration:
                if number == 0:
                    raise
                break
            self._in_flight.append(self._function.schedule(source, spec))
        while self._logs is None or len(self._in_flight) > self._max_in_flight:
            self._finish_oldest()
        return self._logs

    def wait(self) -> dict | None:
        """Waits for the steps in flight; returns the last one's logs and ends the epoch."""
        while self._in_flight:
            self._finish_oldest()
        logs, self._logs = self._logs, None
        return logs

    def abandon(self) -> None:
        """Waits for the steps in flight, if any, whatever becomes of them; forgets their logs."""
        if self._in_flight:
            self._function.drain()
        self._in_flight.clear()
        self._logs = None

    def _finish_oldest(self) -> None:
        try:
            latest = self._in_flight[0].fetch()
        except Exception as e:
            if not _is_lost_with_its_worker(e):
                self.abandon()
                raise
            latest = {}  # The step was made; only what it told is gone.
        self._in_flight.popleft()
        self._logs = {} if self._logs is None else self._logs
        self._logs.update(latest)


class PredictFunction:
    """What a trainer calls for each execution of prediction.

    Args:
      model: The model.
    """

    def __init__(self, model: keras.Model):
        self._function = WorkerFunction(model.distribute_strategy, model.predict_step)

    def schedule(self, batch, spec=None):
        """Schedules the prediction of a batch; returns its `RemoteValue`."""
        return self._function.schedule(batch, spec)

    def __call__(self, batches: list):
        """The predictions of some batches.

        Args:
          batches: Batches, or the `RemoteValue`s of those that have been scheduled.
        """
        is_remote = tf.distribute.coordinator.RemoteValue
        remote = [b if isinstance(b, is_remote) else self.schedule(b) for b in batches]
        outputs = [r.get() for r in remote]
        return outputs[0] if len(outputs) == 1 else internals.concatenated(outputs)


def predicted_ahead(model: keras.Model, adapter: data.Adapter, steps: int | None) -> data.Adapter:
    """The data of `predict`, whose iterator has each batch predicted before it is asked for.

    Args:
      model: The model.
      adapter: The batches.
      steps: How many to predict at most; all if `None`.
    """
    return data.Adapter(_Predicted(model, adapter.get_tf_dataset(), steps), adapter.num_batches)


class _Predicted(tf.distribute.DistributedDataset):
    """The `RemoteValue`s of a dataset's predictions, in order."""

    def __init__(self, model: keras.Model, batches: data.ChiefBatches, steps: int | None):
        self._model = model
        self._batches = batches
        self._steps = steps

    @property
    def element_spec(self):
        return self._batches.element_spec

    def __iter__(self) -> Iterator[tf.distribute.coordinator.RemoteValue]:
        stream = iter(self._batches)
        if not self._model.built:
            internals.build(self._model, keras.utils.unpack_x_y_sample_weight(next(stream))[0])
        in_flight: collections.deque = collections.deque()
        for batch in itertools.islice(_taken(stream), self._steps):
            in_flight.append(self._model.predict_function.schedule(batch, stream.spec))
            if len(in_flight) > _max_in_flight(self._model.distribute_strategy):
                yield in_flight.popleft()
        yield from in_flight


def _taken(stream: data.ChiefStream) -> Iterator:
    """The batches that are left."""
    with contextlib.suppress(StopIteration):
        while True:
            yield stream.take()


def _is_lost_with_its_worker(error: Exception) -> bool:
    """Whether a result cannot be fetched since the worker that has it does not answer any more."""
    return isinstance(error, tf.errors.UnavailableError) and "/job:ps" not in str(error)


def _run_on_this_worker(strategy, step: Callable, batch):
    """`strategy.run` for a worker of one replica, in the thread that traces.

    Elsewhere `strategy.run` starts a thread, from which no variable can be updated in a condition.
    """
    (device,) = strategy.extended.worker_devices
    replica = tf.distribute.ReplicaContext(strategy, replica_id_in_sync_group=0)
    with tf.device(device), replica, tf.variable_creator_scope(_outside_of_functions):
        return step(batch)


def _outside_of_functions(next_creator, **kwargs):
    """Makes a variable where the strategy can place it; an optimizer makes some in a step."""
    with tf.init_scope():
        return next_creator(**kwargs)


def _max_in_flight(strategy) -> int:
    return _IN_FLIGHT_PER_WORKER * len(strategy.tasks.workers)
