"""Changes of plans while a real cluster trains."""

import threading

import numpy as np
import pytest
import tf_keras

import tf_dynacomm
from tests.cluster import programs

pytestmark = pytest.mark.cluster


def _cut(step, layer):
    """A plan of two segments each way, cut after a layer."""
    first, second = (1, layer), (layer + 1, len(step.layers))
    return tf_dynacomm.Plan((first, second), (second, first), names=step.names)


class _AtEpochEnd(tf_keras.callbacks.Callback):
    """Calls `act(epoch, step)` at the end of each epoch but the last."""

    def __init__(self, strategy, act):
        super().__init__()
        self.strategy, self.act = strategy, act

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 < self.params["epochs"]:
            self.act(epoch, self.strategy.coordinator.training_step)


def _train(strategy, act=None, epochs=3, steps=12):
    model = programs.build_cnn(strategy)
    callbacks = [_AtEpochEnd(strategy, act)] if act else []
    model.fit(
        programs.dataset_creator(),
        epochs=epochs,
        steps_per_epoch=steps,
        verbose=0,
        callbacks=callbacks,
    )
    return [v.numpy() for v in (*model.variables, *model.optimizer.variables)]


def _plans(strategy, worker):
    times = strategy.coordinator.training_step.times.latest()
    return list(dict.fromkeys(t.plan for t in times if t.worker == worker))


def test_each_worker_runs_by_its_own_plan(cluster_2w2p):
    strategy = programs.make_strategy(cluster_2w2p)

    def act(epoch, step):
        if epoch == 0:
            for worker in (0, 1):
                step.set_plan(_cut(step, 1 + worker), [worker])

    _train(strategy, act, epochs=2, steps=60)
    step = strategy.coordinator.training_step
    for worker in (0, 1):
        assert _plans(strategy, worker) == [step.first_plan, _cut(step, 1 + worker)]


def test_weights_equal_stock_when_planning_is_left_and_taken_up_again(cluster_1w2p):
    strategy = programs.make_strategy(cluster_1w2p)
    ours = _train(strategy, lambda epoch, step: step.set_plan([None, step.first_plan][epoch]))
    first = strategy.coordinator.training_step.first_plan
    assert _plans(strategy, 0) == [first, None]
    assert strategy.coordinator.training_step.plan == first
    stock = _train(programs.make_strategy(cluster_1w2p, stock=True))
    for our, their in zip(ours, stock, strict=True):
        np.testing.assert_array_equal(our, their)


def test_loading_a_plan_runs_no_step_and_holds_none_up(cluster_1w1p):
    """Loading waits for a step's inputs, so that the training must go on for it to end."""
    strategy = programs.make_strategy(cluster_1w1p)
    results, threads = [], []

    def act(epoch, step):
        plan = [_cut(step, 1), None][epoch]

        def load():
            results.append(step.load(plan, 0, 60.0, threading.Event()))

        threads.append(threading.Thread(target=load))
        threads[-1].start()

    ours = _train(strategy, act, steps=60)
    for thread in threads:
        thread.join()
    assert results == [True, True]
    assert _plans(strategy, 0) == [strategy.coordinator.training_step.first_plan]
    stock = _train(programs.make_strategy(cluster_1w1p, stock=True), steps=60)
    for our, their in zip(ours, stock, strict=True):
        np.testing.assert_array_equal(our, their)
