"""Each optimizer, and all that may be done to gradients, learns as under stock, bit for bit."""

import functools

import pytest

from tests.cluster import model_zoo, training

pytestmark = pytest.mark.cluster


def _schedule(optimizers):
    return optimizers.schedules.PiecewiseConstantDecay([2, 4], [0.1, 0.05, 0.01])


OPTIMIZERS = {
    "SGD, weight decay": lambda o: o.SGD(0.1, weight_decay=0.01),
    "momentum, schedule": lambda o: o.SGD(_schedule(o), momentum=0.9, nesterov=True),
    "Adam, global_clipnorm": lambda o: o.Adam(0.01, global_clipnorm=0.1),
    "AdamW, clipvalue": lambda o: o.AdamW(0.01, clipvalue=0.02),
    "Adagrad, clipnorm": lambda o: o.Adagrad(0.05, clipnorm=0.05),
    "Adafactor": lambda o: o.Adafactor(0.01),
    "RMSprop": lambda o: o.RMSprop(0.01, momentum=0.5, centered=True),
    "Lion": lambda o: o.Lion(0.005),
    "Ftrl": lambda o: o.Ftrl(0.05),
    "EMA": lambda o: o.Adam(0.01, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3),
    "legacy Adam": lambda o: o.legacy.Adam(0.01),
}
_IN_KERAS_3 = {
    "legacy Adam": "Keras 3 has no legacy optimizers.",
    "Adam, global_clipnorm": {"sparse": ()},  # It makes rows a whole gradient.
}


def _classifier(keras, optimizer):
    """A model with sparse and dense gradients, a constraint and moving statistics."""
    layers = keras.layers
    return model_zoo.stack(
        keras,
        layers.Embedding(60, 4, name="table"),
        layers.Flatten(),
        model_zoo.dense(keras, kernel_constraint=keras.constraints.MaxNorm(0.8)),
        layers.BatchNormalization(),
        model_zoo.dense(keras),
        shape=(5,),
        optimizer=optimizer(keras.optimizers),
    )


@pytest.fixture(scope="module", params=OPTIMIZERS)
def program(request, keras_api):
    build = functools.partial(_classifier, optimizer=OPTIMIZERS[request.param])
    different = _IN_KERAS_3.get(request.param, {})
    base = training.Program(build, "tokens", layers=4, gathered=["table"], in_keras_3=different)
    return base.of(keras_api)


def test_numbers_equal_stock_bit_for_bit_under_three_plans(ours, stock):
    training.assert_equal(ours, stock)
    assert len(training.plans_used(ours.step)) == training.EPOCHS


def test_what_can_be_grouped_is_grouped(ours, program):
    training.assert_grouped(program, ours)


def test_iterations_count_the_worker_s_steps(ours):
    steps = training.EPOCHS * training.STEPS_PER_EPOCH
    assert ours.model.optimizer.iterations.numpy() == steps
