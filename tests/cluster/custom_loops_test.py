"""Custom loops run as under stock, bit for bit, whatever their steps do with variables."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import tf_dynacomm
from tests.cluster import loop_zoo, programs, training

pytestmark = pytest.mark.cluster

_STEPS = 6


@dataclasses.dataclass(frozen=True)
class _Run:
    loop: loop_zoo.Loop
    losses: list
    values: list
    step: object


def _iterator(coordinator):
    per_worker = coordinator.create_per_worker_dataset(lambda: training.dataset("vectors"))
    return iter(per_worker)


def _run(strategy, make_loop) -> _Run:
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        loop = make_loop(strategy)
    iterator, losses = _iterator(coordinator), []
    for number in range(_STEPS):
        losses.append(coordinator.schedule(loop.step, args=(iterator,)).fetch())
        step = next(iter(getattr(coordinator, "steps", ())), None)
        if step is not None and number % 2:
            training.switch_plan(step, number // 2)
    return _Run(loop, losses, training.values(loop.variables), step)


@pytest.fixture(scope="module", params=loop_zoo.LOOPS, ids=lambda loop: loop.__name__)
def make_loop(request):
    return request.param


@pytest.fixture(scope="module")
def ours(make_loop, cluster_1w2p):
    return _run(programs.make_strategy(cluster_1w2p), make_loop)


@pytest.fixture(scope="module")
def stock(make_loop, cluster_1w2p):
    return _run(programs.make_strategy(cluster_1w2p, stock=True), make_loop)


def test_numbers_equal_stock_bit_for_bit_under_three_plans(ours, stock):
    assert ours.losses == stock.losses
    for mine, other in zip(ours.values, stock.values, strict=True):
        np.testing.assert_array_equal(mine, other, strict=True)
    assert len(training.plans_used(ours.step)) == 3


def test_what_can_be_grouped_is_grouped(ours):
    pulled, pushed = training.moved(ours.step)
    assert pulled == sorted(_names(ours.loop.pulled))
    assert pushed == sorted(_names(ours.loop.pushed))
    assert training.left_alone(ours.step) == []


def _names(variables):
    return [v.name.removesuffix(":0") for v in variables]


def test_each_function_has_its_own_plan(cluster_1w2p):
    """One loop schedules two functions by turns, as a GAN does."""
    strategy = programs.make_strategy(cluster_1w2p)
    with strategy.scope():
        loops = [loop_zoo.by_strategy_run(strategy) for _ in range(2)]
    iterator = _iterator(strategy.coordinator)
    for loop in loops * 2:
        strategy.coordinator.schedule(loop.step, args=(iterator,))
    strategy.coordinator.join()
    first, second = strategy.coordinator.steps
    assert [len(step.times.latest()) for step in (first, second)] == [2, 2]
    first.set_plan(tf_dynacomm.Plan(((1, 2),), ((1, 2),)))
    assert second.plan == second.first_plan


def test_arguments_and_results_pass_as_under_stock(cluster_1w2p):
    """Tensors, numbers, per-worker values and keywords go in; structures come out."""
    strategy = programs.make_strategy(cluster_1w2p)
    with strategy.scope():
        net = loop_zoo.Net()

    @tf.function
    def step(iterator, rate, *, shift):
        inputs, labels = next(iterator)
        loss = net.loss(inputs + shift, labels)
        net.kernel.assign_sub(rate * tf.ones_like(net.kernel))
        return {"loss": loss, "rate": [rate, shift]}

    iterator = _iterator(strategy.coordinator)
    result = strategy.coordinator.schedule(
        step, args=(iterator, tf.constant(0.5)), kwargs={"shift": 2.0}
    )
    before = net.kernel.numpy()
    fetched = result.fetch()
    assert fetched["rate"] == [0.5, 2.0]
    np.testing.assert_array_equal(net.kernel.numpy(), before - np.float32(0.5))


def test_two_workers_share_a_custom_loop(cluster_2w2p):
    strategy = programs.make_strategy(cluster_2w2p)
    with strategy.scope():
        loop = loop_zoo.by_strategy_run(strategy)
    iterator = _iterator(strategy.coordinator)
    losses = [strategy.coordinator.schedule(loop.step, args=(iterator,)) for _ in range(60)]
    strategy.coordinator.join()
    losses = strategy.coordinator.fetch(losses)
    assert {t.worker for t in strategy.coordinator.training_step.times.latest()} == {0, 1}
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
