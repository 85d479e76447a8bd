"""`DynaCommStrategy` on a real cluster, beside stock `ParameterServerStrategy`."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tf_dynacomm
from tests.cluster import programs

pytestmark = pytest.mark.cluster

_STEPS = 12


def _train(strategy, optimizer="momentum", epochs=3, callbacks=(), steps=_STEPS, dropout=0.0):
    model = programs.build_cnn(strategy, optimizer, dropout=dropout)
    model.fit(
        programs.dataset_creator(),
        epochs=epochs,
        steps_per_epoch=steps,
        verbose=0,
        callbacks=list(callbacks),
    )
    return model


def _assert_bitwise_equal(model, other):
    for ours, theirs in zip(_all_weights(model), _all_weights(other), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _all_weights(model) -> list[np.ndarray]:
    return [v.numpy() for v in (*model.variables, *model.optimizer.variables)]


class _NewPlanEachEpoch(tf_keras.callbacks.Callback):
    """Switches to another plan at every epoch boundary."""

    def __init__(self, strategy):
        super().__init__()
        self.strategy, self.used = strategy, set()

    def on_epoch_end(self, epoch, logs=None):
        step = self.strategy.coordinator.training_step
        self.used.add(step.plan)
        cut, last = 1 + epoch, len(step.layers)
        pull, push = ((1, cut), (cut + 1, last)), ((cut + 1, last), (1, cut))
        step.set_plan(tf_dynacomm.Plan(pull, push, names=step.names))


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_weights_equal_stock_bit_for_bit_while_plans_change(cluster_1w1p, optimizer):
    strategy = programs.make_strategy(cluster_1w1p)
    switch = _NewPlanEachEpoch(strategy)
    ours = _train(strategy, optimizer, callbacks=[switch])
    stock = _train(programs.make_strategy(cluster_1w1p, stock=True), optimizer)
    assert len(switch.used) == 3
    _assert_bitwise_equal(ours, stock)


def test_weights_equal_stock_bit_for_bit_while_replanning_from_traces(cluster_1w1p):
    replan = tf_dynacomm.ReplanCallback(min_gain=-1.0)
    strategy = programs.make_strategy(cluster_1w1p)
    ours = _train(strategy, epochs=5, callbacks=[replan], steps=100)
    stock = _train(programs.make_strategy(cluster_1w1p, stock=True), epochs=5, steps=100)
    assert any(r.matched_share for r in replan.reports)
    assert any(r.replanned for r in replan.reports)
    _assert_bitwise_equal(ours, stock)


def test_seeded_dropout_keeps_its_sequence(cluster_1w1p):
    replan = tf_dynacomm.ReplanCallback(min_gain=-1.0)
    strategy = programs.make_strategy(cluster_1w1p)
    ours = _train(strategy, callbacks=[replan], steps=60, dropout=0.3)
    stock = _train(programs.make_strategy(cluster_1w1p, stock=True), steps=60, dropout=0.3)
    assert "seeded random numbers" in replan.reports[-1].reason
    _assert_bitwise_equal(ours, stock)


def test_replanning_after_so_many_steps_needs_no_epoch_end(cluster_1w1p):
    replan = tf_dynacomm.ReplanCallback(replan_every=20, min_gain=-1.0)
    strategy = programs.make_strategy(cluster_1w1p)
    _train(strategy, epochs=1, callbacks=[replan], steps=200)
    times = strategy.coordinator.training_step.times.latest()
    assert len({t.plan for t in times}) > 1
    assert replan.reports[0].replanned


def test_scheduler_stock_schedules_nothing(cluster_1w1p):
    strategy = programs.make_strategy(cluster_1w1p, scheduler="stock")
    ours = _train(strategy, epochs=1)
    stock = _train(programs.make_strategy(cluster_1w1p, stock=True), epochs=1)
    assert strategy.coordinator.training_step.plan is None
    _assert_bitwise_equal(ours, stock)


def test_plan_set_by_hand_is_kept(cluster_1w1p):
    by_hand = tf_dynacomm.Plan(((1, 2), (3, 6)), ((5, 6), (1, 4)))
    strategy = programs.make_strategy(cluster_1w1p, plan=by_hand)
    replan = tf_dynacomm.ReplanCallback()
    _train(strategy, epochs=2, callbacks=[replan])
    assert strategy.coordinator.training_step.plan == by_hand
    assert not any(r.replanned for r in replan.reports)


def test_plan_of_another_model_is_refused(cluster_1w1p):
    strategy = programs.make_strategy(cluster_1w1p, plan=tf_dynacomm.Plan(((1, 2),), ((1, 2),)))
    with pytest.raises(ValueError, match="`plan` is for 2 layers; this step has 6"):
        _train(strategy, epochs=1)


def test_only_variables_that_the_step_reads_are_pulled(cluster_1w1p):
    strategy = programs.make_strategy(cluster_1w1p)
    model = _train(strategy, "adam", epochs=1)
    layers = strategy.coordinator.training_step.layers
    pulled = [p.variable.name for layer in layers for p in layer.pulls]
    assert sorted(pulled) == sorted(v.name.removesuffix(":0") for v in model.variables)


def test_strategy_is_a_parameter_server_strategy_with_one_coordinator(cluster_1w1p):
    strategy = programs.make_strategy(cluster_1w1p)
    assert isinstance(strategy, tf.distribute.ParameterServerStrategy)
    assert tf.distribute.coordinator.ClusterCoordinator(strategy) is strategy.coordinator


def test_saved_weights_load_under_the_other_strategy(cluster_1w1p, tmp_path):
    ours = _train(programs.make_strategy(cluster_1w1p), epochs=1)
    ours.save_weights(tmp_path / "weights")
    stock = programs.build_cnn(programs.make_strategy(cluster_1w1p, stock=True))
    stock.load_weights(tmp_path / "weights")
    for saved, loaded in zip(ours.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_array_equal(saved, loaded)


class _StopAfterFirstEpoch(tf_keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


def test_backup_and_restore_goes_on_where_training_stopped(cluster_1w1p, tmp_path):
    backup = tf_keras.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        _train(programs.make_strategy(cluster_1w1p), callbacks=[backup, _StopAfterFirstEpoch()])
    strategy = programs.make_strategy(cluster_1w1p)
    resumed = _train(strategy, callbacks=[tf_keras.callbacks.BackupAndRestore(tmp_path)])
    assert strategy.coordinator.steps_finished == 2 * _STEPS
    assert resumed.optimizer.iterations.numpy() == 3 * _STEPS


def test_custom_loop_without_keras_runs_as_planned(cluster_1w1p):
    strategy = programs.make_strategy(cluster_1w1p)
    with strategy.scope():
        weight, bias = tf.Variable(tf.ones([64, 10])), tf.Variable(tf.zeros([10]))
    variables = (weight, bias)

    @tf.function
    def step(iterator):
        def replica(batch):
            with tf.GradientTape() as tape:
                logits = tf.reshape(batch[0], [-1, 64]) @ weight + bias
                loss = tf.reduce_mean(logits**2)
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.1 * gradient)

        strategy.run(replica, args=(next(iterator),))

    for _ in range(5):
        strategy.coordinator.schedule(step, args=(programs.per_worker_iterator(strategy),))
    strategy.coordinator.join()
    assert strategy.coordinator.steps_finished == 5
    assert not np.array_equal(weight.numpy(), np.ones([64, 10]))
