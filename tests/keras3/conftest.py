"""A strategy without a cluster: what is scheduled on it runs here, when it is waited for."""

import types
from unittest import mock

import pytest
import tensorflow as tf


class Remote(tf.distribute.coordinator.RemoteValue):
    """The outcome of a function, which runs when it is first asked for."""

    def __init__(self, function, args):
        self._function = function
        self._args = args

    def fetch(self):
        """Runs the function; gives NumPy values."""
        return tf.nest.map_structure(lambda t: t.numpy(), self.get())

    def get(self):
        """Runs the function; gives tensors."""
        return self._function(*self._args)


def _traced(dataset_fn):
    """A function of datasets, traced on the chief as TensorFlow does for workers."""

    def trace():
        dataset_fn(tf.distribute.InputContext(2))

    tf.function(trace, autograph=False).get_concrete_function()
    return dataset_fn


@pytest.fixture
def strategy():
    """Has two workers. `strategy.coordinator.scheduled` counts what has been scheduled."""
    coordinator = mock.Mock(scheduled=0)
    coordinator.create_per_worker_dataset.return_value = mock.MagicMock()

    def schedule(function, args):
        coordinator.scheduled += 1
        return Remote(function, args)

    coordinator.schedule.side_effect = schedule
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    strategy.coordinator = coordinator
    strategy.distribute_datasets_from_function = _traced
    strategy.tasks = types.SimpleNamespace(workers=("a", "b"))
    return strategy
