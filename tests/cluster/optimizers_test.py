"""Each optimizer, and all that may be done to gradients, learns as under stock, bit for bit."""

import functools

import pytest

from tests.cluster import model_zoo, training

pytestmark = pytest.mark.cluster


def _schedule(optimizers):
    return optimizers.schedules.PiecewiseConstantDecay([2, 4], [0.1, 0.05, 0.01])


OPTIMIZERS = {
    "SGD": lambda o: o.SGD(0.1),
    "momentum": lambda o: o.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda o: o.Adam(0.01),
    "AdamW": lambda o: o.AdamW(0.01),
    "Adagrad": lambda o: o.Adagrad(0.05),
    "Adafactor": lambda o: o.Adafactor(0.01),
    "RMSprop": lambda o: o.RMSprop(0.01, momentum=0.5, centered=True),
    "Lion": lambda o: o.Lion(0.005),
    "Ftrl": lambda o: o.Ftrl(0.05),
    "clipvalue": lambda o: o.Adam(0.01, clipvalue=0.02),
    "clipnorm": lambda o: o.SGD(0.1, momentum=0.9, clipnorm=0.05),
    "global_clipnorm": lambda o: o.Adam(0.01, global_clipnorm=0.1),
    "weight decay": lambda o: o.SGD(0.1, weight_decay=0.01),
    "EMA": lambda o: o.Adam(0.01, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3),
    "legacy Adam": lambda o: o.legacy.Adam(0.01),
    "schedule": lambda o: o.SGD(_schedule(o), momentum=0.9),
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
def program(request):
    build = functools.partial(_classifier, optimizer=OPTIMIZERS[request.param])
    return training.Program(build, "tokens", layers=4, gathered=["table"])


def test_numbers_equal_stock_bit_for_bit_under_three_plans(ours, stock):
    training.assert_equal(ours, stock)
    assert len(training.plans_used(ours.step)) == training.EPOCHS


def test_what_can_be_grouped_is_grouped(ours, program):
    training.assert_grouped(program, ours)


def test_iterations_count_the_worker_s_steps(ours):
    steps = training.EPOCHS * training.STEPS_PER_EPOCH
    assert ours.model.optimizer.iterations.numpy() == steps
