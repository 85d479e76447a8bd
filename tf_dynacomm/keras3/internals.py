"""Every use of private Keras 3 API, each with what it relies on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf
from keras.src.backend import compute_output_spec
from keras.src.backend.tensorflow import trainer as tf_trainer
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters import array_slicing, data_adapter

# An object of this class is taken by `get_data_adapter` as it is; the trainer asks it for
# `get_tf_dataset`, `num_batches` and the epoch hooks.
DataAdapter = data_adapter.DataAdapter
TFDatasetAdapter = data_adapters.TFDatasetAdapter
PyDatasetAdapter = data_adapters.PyDatasetAdapter

# Relies on taking all that `fit` takes as data, and on checking it.
get_data_adapter = data_adapters.get_data_adapter

_lock = threading.Lock()
_listeners: list[Callable[[keras.Model], None]] = []
_made = tf_trainer.TensorFlowTrainer.__init__


@contextlib.contextmanager
def models_made(listener: Callable[[keras.Model], None]) -> Iterator[None]:
    """Calls `listener` with each model as it is made, as long as the context is open.

    Relies on every model being a `TensorFlowTrainer` that calls its `__init__` first of all. Keras
    has no hook for this: while a context is open, and no longer, that method is replaced.
    """
    with _lock:
        _listeners.append(listener)
        tf_trainer.TensorFlowTrainer.__init__ = _make_and_tell
    try:
        yield
    finally:
        with _lock:
            _listeners.remove(listener)
            if not _listeners:
                tf_trainer.TensorFlowTrainer.__init__ = _made


def _make_and_tell(model, *args, **kwargs) -> None:
    _made(model, *args, **kwargs)
    for listener in tuple(_listeners):
        listener(model)


def strategy_of(model: keras.Model) -> tf.distribute.Strategy | None:
    """The strategy in whose scope a model was made; `None` if in none.

    Relies on `TensorFlowTrainer.__init__` setting `_distribute_strategy`.
    """
    return model._distribute_strategy


def split_for_validation(arrays, validation_split: float):
    """The training and the validation part of (x, y, sample_weight), as `fit` splits them."""
    return array_slicing.train_validation_split(arrays, validation_split=validation_split)


def without_optionals(structure):
    """Puts `None` for each empty `tf.experimental.Optional`, as the trainer does before a step.

    Relies on the data adapters handing on a missing part of a batch as such an optional.
    """
    return keras.tree.map_structure(_none_if_optional, structure)


def _none_if_optional(leaf):
    return None if isinstance(leaf, tf.experimental.Optional | tf.OptionalSpec) else leaf


def concatenated(outputs: list):
    """The outputs of several prediction steps as one, along the batch."""
    return keras.tree.map_structure(lambda *parts: tf_trainer.concat(parts), *outputs)


def build(model: keras.Model, x) -> None:
    """Makes a model's variables for inputs such as `x`, in its strategy's scope.

    Relies on `compute_output_spec` building a model from `KerasTensor`s, as the trainer does.
    """

    def symbolic(tensor):
        return keras.KerasTensor(tensor.shape, keras.backend.standardize_dtype(tensor.dtype))

    with model.distribute_strategy.scope():
        compute_output_spec(model, keras.tree.map_structure(symbolic, x), training=False)
