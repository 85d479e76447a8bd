"""`evaluate` and `predict`, alone and between two trainings, in and out of the scope."""

import numpy as np
import pytest
import tensorflow as tf

from tests.cluster import model_zoo, training

pytestmark = pytest.mark.cluster

_PROGRAM = model_zoo.PROGRAMS["convolutions"]
_KIND = _PROGRAM.data


def _data(keras):
    return training.fit_data(keras, lambda: training.dataset(_KIND))


def _evaluate(keras, model):
    return model.evaluate(_data(keras), steps=3, verbose=0)


def _predict(model):
    return model.predict(training.arrays(_KIND)[0], verbose=0).tolist()


def _all_in_turn(keras, strategy) -> tuple[object, list]:
    """A model, and all that it gave: before, between and after two trainings."""
    model = training.build(keras, _PROGRAM, strategy)
    results = [_evaluate(keras, model), _predict(model)]
    results.append(training.fit(keras, model, _KIND))
    results.append(_predict(model))
    with strategy.scope():
        results.append(_evaluate(keras, model))
    validation = {"validation_data": _data(keras), "validation_steps": 2}
    results.append(training.fit(keras, model, _KIND, **validation))
    results.extend([_evaluate(keras, model), _predict(model), training.all_weights(model)])
    return model, results


@pytest.fixture(scope="module")
def strategy(keras_api, cluster_1w2p):
    return training.make_strategy(keras_api, cluster_1w2p)


@pytest.fixture(scope="module")
def ours(keras_api, strategy):
    return _all_in_turn(keras_api, strategy)


@pytest.fixture(scope="module")
def stock(keras_api, cluster_1w2p):
    return _all_in_turn(keras_api, training.make_strategy(keras_api, cluster_1w2p, stock=True))


def test_results_equal_stock_bit_for_bit(ours, stock):
    *mine, weights = ours[1]
    *theirs, other_weights = stock[1]
    assert mine == theirs
    for weight, other in zip(weights, other_weights, strict=True):
        np.testing.assert_array_equal(weight, other)


def test_evaluation_pulls_in_segments_and_pushes_none(ours, strategy):
    evaluating = [step for step in strategy.coordinator.steps if not step.trains]
    assert evaluating
    for step in evaluating:
        assert len(step.layers) == _PROGRAM.layers
        assert step.plan.push == ()
        assert {pack.partition("/")[0] for pack in training.packs(step, "pull")} == {
            f"pull_{number}" for number in range(1, len(step.plan.pull) + 1)
        }
        assert training.left_alone(step) == []


def test_the_training_keeps_its_step_and_its_plans(ours, strategy):
    step = strategy.coordinator.training_step
    assert step.trains
    assert len(step.times.latest()) == 2 * training.EPOCHS * training.STEPS_PER_EPOCH
    assert step.plan.credit == 1 + training.EPOCHS


def test_evaluation_follows_a_plan_set_by_hand(keras_api, ours, strategy):
    model, _ = ours
    before = _evaluate(keras_api, model)
    step = max(strategy.coordinator.steps, key=lambda step: step.times.latest()[-1].end_s)
    assert not step.trains
    training.switch_plan(step, 1)
    assert _evaluate(keras_api, model) == before
    assert step.times.latest()[-1].plan == step.plan


def test_exact_evaluation_equals_stock(keras_api, cluster_1w2p):
    """Every row counts once, however the shards of the data fall on workers."""
    if keras_api.__name__ == "keras":
        pytest.skip("Keras 3 has no `pss_evaluation_shards`: evaluation is always exact.")
    program = training.Program(
        lambda keras: model_zoo.stack(keras, model_zoo.dense(keras), pss_evaluation_shards=2)
    )
    rows = tf.data.Dataset.from_tensor_slices(training.arrays("vectors")).batch(8)
    trained = [
        training.train(keras_api, program, cluster_1w2p, stock=stock).model
        for stock in (True, False)
    ]
    stock, ours = (model.evaluate(rows, verbose=0) for model in trained)
    assert ours == stock
