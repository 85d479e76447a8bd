"""Every use of private Keras 3 API, each with what it relies on."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf
from keras.src.backend import compute_output_spec
from keras.src.backend.tensorflow import trainer as tf_trainer
from keras.src.trainers import data_adapters, trainer
from keras.src.trainers.data_adapters import array_slicing, data_adapter

# An object of this class is taken by `get_data_adapter` as it is; the trainer asks it for
# `get_tf_dataset`, `num_batches` and the epoch hooks.
DataAdapter = data_adapter.DataAdapter
TFDatasetAdapter = data_adapters.TFDatasetAdapter
PyDatasetAdapter = data_adapters.PyDatasetAdapter

# Relies on taking all that `fit` takes as data, and on checking it.
get_data_adapter = data_adapters.get_data_adapter


class _Hook:
    """Tells of the calls of a method of models, which Keras has no hook for.

    While somebody listens, and no longer, the method is replaced.
    """

    def __init__(self, owner: type, name: str):
        self._owner, self._name = owner, name
        self._method = getattr(owner, name)
        self._lock = threading.Lock()
        self._listeners: list[Callable[[keras.Model], None]] = []

    @contextlib.contextmanager
    def listening(self, listener: Callable[[keras.Model], None]) -> Iterator[None]:
        """Calls `listener` with the model after each call, as long as the context is open."""

        @functools.wraps(self._method)
        def telling(model, *args, **kwargs):
            self._method(model, *args, **kwargs)
            for listener in tuple(self._listeners):
                listener(model)

        with self._lock:
            self._listeners.append(listener)
            setattr(self._owner, self._name, telling)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)
                if not self._listeners:
                    setattr(self._owner, self._name, self._method)


# Relies on every model being a `TensorFlowTrainer` that calls its `__init__` first of all.
models_made = _Hook(tf_trainer.TensorFlowTrainer, "__init__").listening
# Relies on every model having the trainer's `compile`.
models_compiled = _Hook(trainer.Trainer, "compile").listening


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
