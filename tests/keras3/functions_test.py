from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_dynacomm.keras3 import data, functions

_IN_FLIGHT = 16  # Eight for each of the strategy's two workers.


def _stream(count: int = 40) -> data.ChiefStream:
    return iter(data.ChiefBatches(tf.data.Dataset.range(count)))


def _step(number):
    return {"number": number}


def test_several_steps_are_in_flight_and_logs_follow(strategy):
    function = functions.EpochFunction(strategy, _step, steps_per_execution=1)
    stream = _stream()
    logs = [dict(function(stream))["number"] for _ in range(20)]
    assert logs == [0] * (_IN_FLIGHT + 1) + [1, 2, 3]
    assert strategy.coordinator.scheduled == 20


def test_after_waiting_the_last_logs_are_those_of_the_last_step(strategy):
    function = functions.EpochFunction(strategy, _step, steps_per_execution=1)
    stream = _stream()
    logs = [function(stream) for _ in range(5)][-1]
    function.wait()
    assert logs == {"number": 4}


def test_the_next_epoch_begins_with_logs_of_its_own(strategy):
    function = functions.EpochFunction(strategy, _step, steps_per_execution=1)
    first = function(_stream())
    function.wait()
    second = _stream()
    second.take()
    assert function(second) == {"number": 1}
    assert first == {"number": 0}


def test_an_execution_has_several_steps_and_ends_with_the_data(strategy):
    function = functions.EpochFunction(strategy, _step, steps_per_execution=3)
    stream = _stream(5)
    function(stream)
    function(stream)
    assert strategy.coordinator.scheduled == 5
    with pytest.raises(StopIteration):
        function(stream)


def test_a_single_batch_is_waited_for(strategy):
    function = functions.EpochFunction(strategy, _step, steps_per_execution=1)
    assert function(iter([np.int64(7)])) == {"number": 7}
    assert function.wait() is None


def test_the_step_is_traced_once_for_all_sizes_of_batches(strategy):
    traced = []

    def step(batch):
        traced.append(batch.shape)
        return {"sum": tf.reduce_sum(batch)}

    function = functions.EpochFunction(strategy, step, steps_per_execution=1)
    stream = iter(data.ChiefBatches(tf.data.Dataset.range(10).batch(4)))
    for _ in range(3):
        function(stream)
    assert function.wait() == {"sum": 8 + 9}
    assert [shape.as_list() for shape in traced] == [[None]]


def test_a_failed_step_is_raised_and_forgotten(strategy):
    def step(number):
        tf.debugging.assert_less(number, tf.constant(2, tf.int64))
        return {"number": number}

    function = functions.EpochFunction(strategy, step, steps_per_execution=1)
    stream = _stream()
    for _ in range(4):
        function(stream)
    with pytest.raises(tf.errors.InvalidArgumentError):
        function.wait()
    strategy.coordinator.join.assert_called_once()
    assert function.wait() is None


def _tell(strategy, *outcomes):
    """Lets the steps that are scheduled next come back with some logs, or an error."""
    remote = [mock.Mock(**{"fetch.side_effect": [outcome]}) for outcome in outcomes]
    strategy.coordinator.schedule.side_effect = remote


def _unavailable(task):
    return tf.errors.UnavailableError(None, None, f"from remote target /job:{task}: Socket closed")


def test_an_epoch_does_without_the_logs_that_a_lost_worker_had(strategy):
    _tell(strategy, {"number": 0}, {"number": 1}, _unavailable("worker/replica:0/task:1"))
    function = functions.EpochFunction(strategy, _step, steps_per_execution=3)
    function(_stream())
    assert function.wait() == {"number": 1}


def test_a_lost_parameter_server_ends_the_epoch(strategy):
    _tell(strategy, {"number": 0}, _unavailable("ps/replica:0/task:0"))
    function = functions.EpochFunction(strategy, _step, steps_per_execution=2)
    function(_stream())
    with pytest.raises(tf.errors.UnavailableError):
        function.wait()


def test_abandoning_waits_only_if_there_is_something_to_wait_for(strategy):
    function = functions.EpochFunction(strategy, _step, steps_per_execution=1)
    function.abandon()
    strategy.coordinator.join.assert_not_called()
    stream = _stream()
    function(stream), function(stream)
    strategy.coordinator.join.side_effect = RuntimeError("a step failed")
    function.abandon()
    strategy.coordinator.join.assert_called_once()


class Doubler(keras.Model):
    """Predicts twice its input."""

    def __init__(self, strategy):
        super().__init__()
        self._distribute_strategy = strategy
        self.predict_function = functions.PredictFunction(self)

    def call(self, x):
        return 2 * x


@pytest.mark.parametrize("steps", [None, 2])
def test_batches_are_predicted_ahead_and_in_order(strategy, steps):
    model = Doubler(strategy)
    model.built = True
    batches = data.ChiefBatches(tf.data.Dataset.range(40).batch(2))
    adapter = functions.predicted_ahead(model, data.Adapter(batches, 20), steps)
    remote = iter(adapter.get_tf_dataset())
    first = model.predict_function([next(remote)])
    assert strategy.coordinator.scheduled == (steps or _IN_FLIGHT + 1)
    rest = [model.predict_function([value]) for value in remote]
    predicted = np.concatenate([first, *rest])
    np.testing.assert_array_equal(predicted, 2 * np.arange(2 * steps if steps else 40))


def test_batches_of_one_execution_become_one_prediction(strategy):
    function = Doubler(strategy).predict_function
    predicted = function([(np.arange(3.0),), (np.arange(2.0),)])
    np.testing.assert_array_equal(predicted, [0, 2, 4, 0, 2])
