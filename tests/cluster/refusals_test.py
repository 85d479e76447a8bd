"""What stock refuses we refuse, in the same words or better ones."""

import re
from concurrent import futures

import pytest
import tensorflow as tf
import tf_keras

from tests.cluster import loop_zoo, model_zoo, programs, training

pytestmark = pytest.mark.cluster


def _data(keras):
    return training.fit_data(keras, lambda: training.dataset("vectors"))


def _model(keras, strategy, *, dense=None, **kwargs):
    program = training.Program(
        lambda keras: model_zoo.stack(keras, model_zoo.dense(keras, **dense or {}), **kwargs)
    )
    return training.build(keras, program, strategy)


def _fit(keras, strategy, *, steps_per_epoch=2, verbose=0, callbacks=(), **kwargs):
    model = _model(keras, strategy, **kwargs)
    fit = {"steps_per_epoch": steps_per_epoch, "verbose": verbose, "callbacks": list(callbacks)}
    model.fit(_data(keras), **fit)


def _fit_with_batch_callback(keras, strategy):
    class Batches(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            pass

    _fit(keras, strategy, callbacks=[Batches()])


def _evaluate_without_steps(keras, strategy):
    _model(keras, strategy).evaluate(_data(keras), verbose=0)


def _predict_in_scope(keras, strategy):
    model = _model(keras, strategy)
    with strategy.scope():
        model.predict(training.arrays("vectors")[0], verbose=0)


def _train_on_batch(keras, strategy):
    _model(keras, strategy).train_on_batch(*training.arrays("vectors"))


def _model_from_elsewhere(keras, strategy):
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    model = model_zoo.stack(keras, model_zoo.dense(keras))
    with strategy.scope():
        model.compile("sgd", "mse")


def _dataset_function_without_dataset(keras, strategy):
    _model(keras, strategy).fit(
        training.fit_data(keras, lambda: 3), steps_per_epoch=2, epochs=1, verbose=0
    )


_REFUSED = {
    "run_eagerly": lambda k, s: _fit(k, s, run_eagerly=True),
    "verbose=1": lambda k, s: _fit(k, s, verbose=1),
    "batch-level callbacks": _fit_with_batch_callback,
    "fit without steps_per_epoch": lambda k, s: _fit(k, s, steps_per_epoch=None),
    "evaluate without steps": _evaluate_without_steps,
    "predict in scope": _predict_in_scope,
    "train_on_batch": _train_on_batch,
    "mixed_float16": lambda k, s: _model(k, s, dense={"dtype": "mixed_float16"}),
    "model from elsewhere": _model_from_elsewhere,
    "no dataset": _dataset_function_without_dataset,
}


def _refusal(act, keras, strategy) -> tuple[type, str]:
    """The error that an act raises, without what differs between two runs and two strategies."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        act(keras, strategy)
    words = re.sub(r"0x\w+|<tensorflow\S+|<tf_dynacomm\S+", "", str(raised.value))
    return raised.type, words.replace("DynaCommStrategy", "ParameterServerStrategyV2")


@pytest.mark.parametrize("name", _REFUSED)
def test_keras_refuses_in_stock_s_words(cluster_1w2p, name):
    ours, stock = (
        _refusal(_REFUSED[name], tf_keras, programs.make_strategy(cluster_1w2p, stock=stock))
        for stock in (False, True)
    )
    assert ours == stock


def test_plain_callables_are_refused_in_stock_s_words(cluster_1w2p):
    def schedule(_, strategy):
        tf.distribute.coordinator.ClusterCoordinator(strategy).schedule(lambda: 1)

    ours, stock = (
        _refusal(schedule, None, programs.make_strategy(cluster_1w2p, stock=stock))
        for stock in (False, True)
    )
    assert ours == stock


_XLA_REFUSED = r"variables on parameter servers.*`jit_compile=False`"


def test_xla_is_refused_with_reason_and_remedy(keras_api, cluster_1w2p):
    strategy = programs.make_strategy(cluster_1w2p)
    with strategy.scope():
        model = keras_api.Sequential([keras_api.layers.Dense(1)])
        with pytest.raises(ValueError, match=_XLA_REFUSED):
            model.compile("sgd", "mse", jit_compile=True)


def test_xla_is_left_to_models_of_other_threads(cluster_1w2p):
    model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
    with programs.make_strategy(cluster_1w2p).scope(), futures.ThreadPoolExecutor() as elsewhere:
        elsewhere.submit(model.compile, "sgd", "mse", jit_compile=True).result()
    assert model.jit_compile


def test_xla_is_refused_of_a_model_compiled_outside_of_the_scope(keras_api, cluster_1w2p):
    strategy = programs.make_strategy(cluster_1w2p)
    with pytest.raises(ValueError, match=_XLA_REFUSED):
        _fit(keras_api, strategy, jit_compile=True)


def test_xla_is_refused_in_a_custom_loop(cluster_1w2p):
    strategy = programs.make_strategy(cluster_1w2p)
    with strategy.scope():
        net = loop_zoo.Net()
    step = tf.function(lambda: net.kernel + 1, jit_compile=True)
    with pytest.raises(ValueError, match="jit_compile"):
        strategy.coordinator.schedule(step)


@pytest.mark.parametrize("inside", [True, False])
def test_variables_made_outside_of_the_scope_are_told(cluster_1w2p, caplog, inside):
    strategy = programs.make_strategy(cluster_1w2p)
    with strategy.scope():
        loop = loop_zoo.by_itself(strategy)
        shift = tf.Variable(1.0, name="shift_inside")
    elsewhere = tf.Variable(1.0, name="shift_outside")
    step = tf.function(lambda: loop.variables[0] * (shift if inside else elsewhere))
    strategy.coordinator.schedule(step)
    strategy.coordinator.join()
    told = [record.getMessage() for record in caplog.records if "scope()" in record.getMessage()]
    assert bool(told) != inside
    assert all("shift_outside" in words for words in told)
