import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_dynacomm import scope as scope_lib
from tf_dynacomm.keras3 import internals, models


@pytest.fixture
def strategy():
    """Any strategy: what is tested here does not train."""
    return tf.distribute.OneDeviceStrategy("/cpu:0")


class _Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)


def _functional():
    inputs = keras.Input([2])
    return keras.Model(inputs, keras.layers.Dense(1)(inputs))


_KINDS = {
    "sequential": lambda: keras.Sequential([keras.Input([2]), keras.layers.Dense(1)]),
    "functional": _functional,
    "subclassed": _Model,
}


def _adopted(model) -> bool:
    entry_points = ("fit", "evaluate", "predict", "make_train_function", "get_metrics_result")
    return all(
        getattr(getattr(model, name), "__func__", None) is getattr(models, name)
        for name in entry_points
    )


def _hooked() -> tuple:
    """The methods of Keras that are replaced in a scope, as they are now."""
    return internals.tf_trainer.TensorFlowTrainer.__init__, internals.trainer.Trainer.compile


@pytest.mark.parametrize("kind", _KINDS)
def test_models_made_in_the_scope_are_adopted(strategy, kind):
    with scope_lib.Scope(strategy, strategy.scope()):
        model = _KINDS[kind]()
    assert _adopted(model)
    assert model.distribute_strategy is strategy


@pytest.mark.parametrize("kind", _KINDS)
def test_other_models_are_left_alone(strategy, kind):
    before = _KINDS[kind]()
    with models.adopting(strategy):  # As while a scope is open in another thread.
        meanwhile = _KINDS[kind]()
    for model in (before, meanwhile, _KINDS[kind]()):
        assert not _adopted(model)


@pytest.mark.parametrize("kind", _KINDS)
def test_a_model_from_elsewhere_is_refused_when_it_is_compiled_in_the_scope(strategy, kind):
    """It would train on the chief, and say nothing."""
    model = _KINDS[kind]()
    with (
        scope_lib.Scope(strategy, strategy.scope()),
        pytest.raises(ValueError, match=r"was made outside of the strategy's scope"),
    ):
        model.compile("sgd", "mse")
    with models.adopting(strategy):  # As while a scope is open in another thread.
        model.compile("sgd", "mse")


def test_keras_is_as_it_was_when_all_scopes_are_left(strategy):
    made, compile = _hooked()
    scope = scope_lib.Scope(strategy, strategy.scope())
    with scope:
        with scope, scope_lib.Scope(strategy, strategy.scope()):
            pass
        assert made not in _hooked()
        assert compile not in _hooked()
    assert _hooked() == (made, compile)


def test_keras_is_as_it_was_after_an_error_in_a_scope(strategy):
    before = _hooked()
    with pytest.raises(RuntimeError, match="inside"), scope_lib.Scope(strategy, strategy.scope()):
        raise RuntimeError("inside")
    assert _hooked() == before


def test_a_model_saved_in_the_scope_is_an_ordinary_one_outside(strategy, tmp_path):
    with scope_lib.Scope(strategy, strategy.scope()):
        model = _functional()
        model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert not _adopted(loaded)
    np.testing.assert_array_equal(loaded.get_weights()[0], model.get_weights()[0])
    with scope_lib.Scope(strategy, strategy.scope()):
        assert _adopted(keras.models.load_model(tmp_path / "model.keras"))
        assert _adopted(keras.models.clone_model(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jit_compile": True}, r"`jit_compile` \(True\) must be False"),
        ({"run_eagerly": True}, r"`run_eagerly` \(True\) must be False"),
    ],
)
def test_steps_that_workers_cannot_run_are_refused(strategy, options, message):
    with scope_lib.Scope(strategy, strategy.scope()):
        model = _functional()
    with pytest.raises(ValueError, match=message):
        model.compile("sgd", "mse", **options)
    for make in (model.make_train_function, model.make_test_function, model.make_predict_function):
        with pytest.raises(ValueError, match=message):
            make()


def test_several_replicas_in_a_worker_are_refused(strategy, monkeypatch):
    with scope_lib.Scope(strategy, strategy.scope()):
        model = _functional()
    monkeypatch.setattr(type(strategy), "num_replicas_in_sync", 2)
    with pytest.raises(ValueError, match=r"GPUs of a worker \(2\) must be at most 1"):
        model.make_predict_function()


def test_scopes_do_nothing_where_keras_3_is_not_loaded(strategy, monkeypatch):
    monkeypatch.delitem(scope_lib.sys.modules, "keras.src.backend.tensorflow.trainer")
    with scope_lib.Scope(strategy, strategy.scope()):
        assert not _adopted(_functional())
