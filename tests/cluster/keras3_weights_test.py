"""What Keras 3 learns on parameter servers, beside what it learns without them."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tf_dynacomm
from tests.cluster import keras3_programs, programs

pytestmark = pytest.mark.cluster

_STEPS = 25


@pytest.fixture
def same_arithmetic():
    """Keeps Grappler from turning the sums of a whole graph into other ones than its parts'."""
    option = "arithmetic_optimization"
    tf.config.optimizer.set_experimental_options({option: False})
    yield
    tf.config.optimizer.set_experimental_options({option: True})


def _trained(strategy=None, callbacks=(), epochs=2, **options) -> keras.Model:
    model = keras3_programs.build(strategy, **options)
    endless = keras3_programs.dataset().repeat()
    model.fit(endless, epochs=epochs, steps_per_epoch=_STEPS, verbose=0, callbacks=list(callbacks))
    return model


def _assert_equal(model, other):
    for ours, theirs in zip(*map(keras3_programs.all_weights, (model, other)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("scheduler", ["dynacomm", "stock"])
def test_weights_are_those_without_a_strategy_bit_for_bit(cluster_1w2p, scheduler):
    strategy = programs.make_strategy(cluster_1w2p, scheduler=scheduler)
    _assert_equal(_trained(strategy, norm=False), _trained(norm=False))


@pytest.mark.usefixtures("same_arithmetic")
@pytest.mark.parametrize("scheduler", ["dynacomm", "stock"])
def test_with_batch_normalization_too(cluster_1w2p, scheduler):
    strategy = programs.make_strategy(cluster_1w2p, scheduler=scheduler)
    _assert_equal(_trained(strategy), _trained())


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_accumulation_steps": 3, "clipnorm": 1.0},
        {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 4},
    ],
    ids=["accumulation", "EMA"],
)
def test_what_happens_every_few_steps_happens(cluster_1w2p, options):
    """Keras puts it in a condition."""
    strategy = programs.make_strategy(cluster_1w2p)
    replan = tf_dynacomm.ReplanCallback()
    optimizer = functools.partial(keras.optimizers.Adam, 0.01, **options)
    ours = _trained(strategy, [replan], norm=False, optimizer=optimizer)
    _assert_equal(ours, _trained(norm=False, optimizer=optimizer))


def test_arrays_are_learnt_in_the_same_order(cluster_1w2p):
    strategy = programs.make_strategy(cluster_1w2p)
    images, labels = keras3_programs.data()
    models = keras3_programs.build(strategy, norm=False), keras3_programs.build(norm=False)
    for model in models:
        tf.random.set_seed(1)
        model.fit(images, labels, batch_size=8, epochs=3, verbose=0, shuffle=False)
    _assert_equal(*models)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_grouped_and_ungrouped_steps_learn_the_same(cluster_1w2p, optimizer):
    grouped, ungrouped = (
        _trained(programs.make_strategy(cluster_1w2p, scheduler=scheduler), optimizer=optimizer)
        for scheduler in ("dynacomm", "stock")
    )
    _assert_equal(grouped, ungrouped)


class _NewPlanEachEpoch(keras.callbacks.Callback):
    """Switches to another plan at every epoch's end."""

    def on_epoch_end(self, epoch, logs=None):
        step = self.model.distribute_strategy.coordinator.training_step
        cut, last = 1 + epoch, len(step.layers)
        pull, push = ((1, cut), (cut + 1, last)), ((cut + 1, last), (1, cut))
        step.set_plan(tf_dynacomm.Plan(pull, push, names=step.names))


def test_plans_change_nothing_that_is_learnt(cluster_1w2p):
    ours = _trained(programs.make_strategy(cluster_1w2p), [_NewPlanEachEpoch()], optimizer="adam")
    stock = _trained(programs.make_strategy(cluster_1w2p, scheduler="stock"), optimizer="adam")
    _assert_equal(ours, stock)


def test_a_saved_model_is_the_same_outside(cluster_1w2p, tmp_path):
    model = _trained(programs.make_strategy(cluster_1w2p), norm=False, epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.iterations == _STEPS
    for ours, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    images = keras3_programs.data()[0]
    np.testing.assert_allclose(
        model.predict(images, verbose=0), loaded.predict(images, verbose=0), rtol=1e-5
    )


def test_both_kerases_train_under_one_strategy(cluster_1w2p):
    strategy = programs.make_strategy(cluster_1w2p)
    replan = tf_dynacomm.ReplanCallback()
    _trained(strategy, [replan])
    assert [r.epoch for r in replan.reports] == [1, 2]
    model = programs.build_cnn(strategy)
    assert isinstance(model, tf_keras.Model)
    model.fit(
        programs.dataset_creator(), epochs=3, steps_per_epoch=4, verbose=0, callbacks=[replan]
    )
    assert [r.epoch for r in replan.reports] == [1, 2, 3]
