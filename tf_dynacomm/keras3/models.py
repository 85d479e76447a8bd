"""The entry points of models that are made in the strategy's scope."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping

import keras
import tensorflow as tf

from tf_dynacomm.keras3 import data, functions, increments, internals
from tf_dynacomm.runtime import coordinator


@contextlib.contextmanager
def adopting(strategy) -> Iterator[None]:
    """Gives each model that is made in `strategy`'s scope the entry points of this module.

    A model from elsewhere is refused when it is compiled there.
    """

    def adopt(model: keras.Model) -> None:
        if internals.strategy_of(model) is strategy:
            for entry_point in _ENTRY_POINTS:
                setattr(model, entry_point.__name__, types.MethodType(entry_point, model))

    def check(model: keras.Model) -> None:
        is_here = tf.distribute.get_strategy() is strategy  # And not in another thread.
        if is_here and internals.strategy_of(model) is not strategy:
            raise ValueError(
                f"The model {model.name!r} was made outside of the strategy's scope, and would "
                "train on the chief alone: make it within `strategy.scope()`."
            )

    creating = tf.variable_creator_scope(increments.with_atomic_increments)
    with internals.models_made(adopt), internals.models_compiled(check), creating:
        yield


def compile(model: keras.Model, *args, **kwargs) -> None:
    """`keras.Model.compile`, whatever it makes being made in the strategy's scope.

    Raises:
      ValueError: If the model is to run eagerly.
      ValueError: If it is to be compiled by XLA.
    """
    with model.distribute_strategy.scope():
        type(model).compile(model, *args, **kwargs)
    _check_traced(model)


def fit(model: keras.Model, *args, **kwargs) -> keras.callbacks.History:
    """`keras.Model.fit`, with the data brought to the workers."""
    _abandon_steps(model)
    call = inspect.signature(keras.Model.fit).bind(model, *args, **kwargs)
    given = call.arguments
    validation_split = given.pop("validation_split", 0.0)
    if validation_split and given.get("validation_data") is None:
        _split_for_validation(given, validation_split)
    if given.get("validation_data") is not None:
        given["validation_data"] = _validation_data(given)
    given["x"] = data.on_workers(
        model.distribute_strategy,
        given.get("x"),
        steps=given.get("steps_per_epoch"),
        shuffle=given.get("shuffle", True),
        **_picked(given, "y", "sample_weight", "batch_size", "class_weight"),
    )
    return type(model).fit(*call.args, **call.kwargs)


def _split_for_validation(given: dict, validation_split: float) -> None:
    arrays = tuple(given.get(name) for name in ("x", "y", "sample_weight"))
    training, given["validation_data"] = internals.split_for_validation(arrays, validation_split)
    given["x"], given["y"], given["sample_weight"] = training


def _validation_data(given: Mapping) -> data.Adapter:
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(given["validation_data"])
    return data.on_chief(
        x,
        steps=given.get("validation_steps"),
        steps_name="validation_steps",
        y=y,
        sample_weight=sample_weight,
        batch_size=given.get("validation_batch_size") or given.get("batch_size"),
    )


def evaluate(model: keras.Model, *args, **kwargs):
    """`keras.Model.evaluate`, with the batches handed to the workers."""
    call = inspect.signature(keras.Model.evaluate).bind(model, *args, **kwargs)
    given = call.arguments
    if not isinstance(given.get("x"), data.Adapter):  # As it is when `fit` calls.
        _abandon_steps(model)
        given["x"] = data.on_chief(
            given.get("x"),
            steps=given.get("steps"),
            steps_name="steps",
            **_picked(given, "y", "sample_weight", "batch_size"),
        )
    return type(model).evaluate(*call.args, **call.kwargs)


def predict(model: keras.Model, *args, **kwargs):
    """`keras.Model.predict`, with the batches handed to the workers."""
    call = inspect.signature(keras.Model.predict).bind(model, *args, **kwargs)
    given = call.arguments
    steps = given.get("steps")
    options = _picked(given, "batch_size")
    adapter = data.on_chief(given.get("x"), steps=steps, steps_name="steps", **options)
    given["x"] = functions.predicted_ahead(model, adapter, steps)
    return type(model).predict(*call.args, **call.kwargs)


def make_train_function(model: keras.Model, force: bool = False) -> None:
    """Makes `train_function`, which schedules `train_step` on the workers."""
    if model.train_function is None or force:
        model.train_function = _epoch_function(model, model.train_step)


def make_test_function(model: keras.Model, force: bool = False) -> None:
    """Makes `test_function`, which schedules `test_step` on the workers."""
    if model.test_function is None or force:
        model.test_function = _epoch_function(model, model.test_step)


def _epoch_function(model: keras.Model, step: Callable) -> functions.EpochFunction:
    _check(model)
    return functions.EpochFunction(model.distribute_strategy, step, model.steps_per_execution)


def make_predict_function(model: keras.Model, force: bool = False) -> None:
    """Makes `predict_function`, which gives what `predict_step` gives on the workers."""
    if model.predict_function is None or force:
        _check(model)
        model.predict_function = functions.PredictFunction(model)


def _check(model: keras.Model) -> None:
    """Checks that the model's steps can run on workers.

    Raises:
      ValueError: If the model is to run eagerly.
      ValueError: If it is to be compiled by XLA.
      ValueError: If a worker has several replicas.
      ValueError: If a variable is in several pieces, or not on a parameter server.
    """
    _check_traced(model)
    replicas = model.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        raise ValueError(f"The GPUs of a worker ({replicas}) must be at most 1 with Keras 3.")
    optimizer = getattr(model, "optimizer", None)  # A model that predicts need not be compiled.
    of_optimizer = optimizer.variables if optimizer else []
    for variable in (*model.variables, *model.metrics_variables, *of_optimizer):
        _check_place(variable)


def _check_traced(model: keras.Model) -> None:
    if model.run_eagerly:
        raise ValueError("`run_eagerly` (True) must be False: workers run traced steps only.")
    if model.jit_compile:
        raise ValueError(coordinator.XLA_REFUSED)


def _check_place(variable: keras.Variable) -> None:
    device = getattr(variable.value, "device", None)
    if device is None:
        raise ValueError(
            f"The variable {variable.path!r} must be in one piece with Keras 3: give the strategy "
            "no `variable_partitioner` that splits it."
        )
    if tf.DeviceSpec.from_string(device).job != "ps":
        raise ValueError(
            f"The variable {variable.path!r} ({device}) must be on a parameter server: make the "
            "model, its layers, optimizer and metrics in the strategy's scope."
        )


def get_metrics_result(model: keras.Model) -> dict:
    """`keras.Model.get_metrics_result`, once the steps in flight have ended."""
    for function in _epoch_functions(model):
        function.wait()
    return type(model).get_metrics_result(model)


def _abandon_steps(model: keras.Model) -> None:
    """Clears away what an interrupted call has left."""
    for function in _epoch_functions(model):
        function.abandon()


def _epoch_functions(model: keras.Model) -> list[functions.EpochFunction]:
    return [f for f in (model.train_function, model.test_function) if f is not None]


def _picked(given: Mapping, *names: str) -> dict:
    return {name: given[name] for name in names if name in given}


_ENTRY_POINTS = (
    compile,
    fit,
    evaluate,
    predict,
    make_train_function,
    make_test_function,
    make_predict_function,
    get_metrics_result,
)
