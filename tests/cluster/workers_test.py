"""Two workers share a training. What they learn depends on who is faster; that they learn not."""

import numpy as np
import pytest

from tests.cluster import model_zoo, programs, training, variable_zoo

pytestmark = pytest.mark.cluster

_EPOCHS, _STEPS_PER_EPOCH = 4, 20
_PROGRAMS = {
    name: (model_zoo.PROGRAMS | variable_zoo.PROGRAMS)[name]
    for name in ("convolutions", "LSTM", "sharded embedding", "steps_per_execution", "GAN")
}


def _assert_both_work(strategy, model):
    step = strategy.coordinator.training_step
    assert {time.worker for time in step.times.latest()} == {0, 1}
    assert all(np.all(np.isfinite(weight)) for weight in training.all_weights(model))


@pytest.mark.parametrize("name", _PROGRAMS)
def test_both_workers_train(keras_api, cluster_2w2p, name):
    program = _PROGRAMS[name].of(keras_api)
    strategy = programs.make_strategy(cluster_2w2p, variable_partitioner=program.partitioner)
    model = training.build(keras_api, program, strategy)
    before = training.values(model.trainable_weights)
    steps = {"epochs": _EPOCHS, "steps_per_epoch": _STEPS_PER_EPOCH}
    history = training.fit(keras_api, model, program.data, **steps)
    _assert_both_work(strategy, model)
    after = training.values(model.trainable_weights)
    changed = [np.any(a != b) for a, b in zip(after, before, strict=True)]
    assert np.mean(changed) > 0.5  # A row that no batch asks for, say, stays as it is.
    if "accuracy" in history:
        assert history["loss"][-1] < history["loss"][0]
        assert model.optimizer.iterations.numpy() == _EPOCHS * _STEPS_PER_EPOCH


def test_each_worker_may_have_a_plan_of_its_own(keras_api, cluster_2w2p):
    strategy = programs.make_strategy(cluster_2w2p)
    model = training.build(keras_api, model_zoo.PROGRAMS["sequential"], strategy)
    data = training.fit_data(keras_api, lambda: training.dataset("vectors"))
    model.fit(data, steps_per_epoch=2, verbose=0)
    step = strategy.coordinator.training_step
    step.set_plan(training.plan_for(step, 0), workers=[1])
    begun = len(step.times.latest())
    model.fit(data, steps_per_epoch=40, verbose=0)
    used = {(t.worker, t.plan) for t in step.times.latest()[begun:]}
    assert used == {(0, step.first_plan), (1, training.plan_for(step, 0))}
