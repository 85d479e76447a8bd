"""Data that end before the steps do: stock tells of a cancelled operation and nothing else."""

import contextlib

import pytest
import tensorflow as tf
import tf_keras

from tests.faults import runs
from tf_dynacomm.runtime import coordinator

pytestmark = pytest.mark.cluster

_END = r"Worker [01] has reached the end of the dataset that it {}\. .*`\.repeat\(\)`"


def _ending():
    dataset_fn = runs.data().dataset_fn
    return tf_keras.utils.experimental.DatasetCreator(lambda c: dataset_fn(c).take(8))


def test_of_a_training_is_told(cluster):
    run = runs.Run(cluster, stock=False)
    with pytest.raises(coordinator.DataEndedError, match=_END.format("trains on")):
        run.model.fit(_ending(), steps_per_epoch=40, verbose=0)


def test_of_a_validation_is_told(cluster):
    run = runs.Run(cluster, stock=False)
    validation = {"validation_data": _ending(), "validation_steps": 40}
    with pytest.raises(coordinator.DataEndedError, match=_END.format("evaluates or predicts")):
        run.model.fit(runs.data(), steps_per_epoch=10, verbose=0, **validation)


def test_training_goes_on_with_data_that_last(cluster):
    run = runs.Run(cluster, stock=False)
    with pytest.raises(coordinator.DataEndedError):
        run.model.fit(_ending(), steps_per_epoch=40, verbose=0)
    counted = run.steps_counted
    run.model.fit(runs.data(), steps_per_epoch=20, verbose=0)
    assert run.steps_counted >= counted + 20


def _schedule(run, steps):
    """Lets the workers read three numbers each; returns the results of all steps."""
    loop = run.strategy.coordinator
    iterator = iter(loop.create_per_worker_dataset(lambda: tf.data.Dataset.range(3)))
    step, scheduled = tf.function(lambda iterator: next(iterator)), []
    with contextlib.suppress(tf.errors.OutOfRangeError):  # As `schedule` and `join` raise it.
        for _ in range(steps):
            scheduled.append(loop.schedule(step, args=(iterator,)))
        loop.join()
    return scheduled


def _error(result):
    try:
        result.fetch()
    except tf.errors.OpError as error:
        return type(error)


def test_each_step_tells_why_it_was_given_up(cluster):
    """Whether its data ended, or it was under way or not yet begun when another's did."""
    errors = [_error(result) for result in _schedule(runs.Run(cluster, stock=False), 100)]
    assert set(errors) == {None, coordinator.DataEndedError}
    assert errors.count(None) <= 6
