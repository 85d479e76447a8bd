"""What happens to a model on its way: frozen, compiled again, its rate changed by callbacks."""

import pytest
import tensorflow as tf

import tf_dynacomm
from tests.cluster import model_zoo, programs, training, variable_zoo

pytestmark = pytest.mark.cluster


def _both(keras, cluster_spec, act) -> dict[str, list]:
    """What `act(keras, strategy)` gives under our strategy and under stock's."""
    return {
        name: act(keras, training.make_strategy(keras, cluster_spec, stock=name == "stock"))
        for name in ("ours", "stock")
    }


def _frozen_and_unfrozen(keras, strategy):
    """Trains three times, the middle layer frozen in the second; returns numbers and steps."""
    model = training.build(keras, model_zoo.PROGRAMS["sequential"], strategy)
    results, steps = [], []
    for trainable in (True, False, True):
        model.layers[1].trainable = trainable
        with strategy.scope():
            model_zoo.compiled(keras, model)
        results.append(training.fit(keras, model))
        steps.append(getattr(getattr(strategy, "coordinator", None), "training_step", None))
    return results, [w.tolist() for w in training.all_weights(model)], steps


def test_a_layer_is_frozen_and_trained_again(keras_api, cluster_1w2p):
    results = _both(keras_api, cluster_1w2p, _frozen_and_unfrozen)
    *ours, steps = results["ours"]
    assert ours == list(results["stock"][:2])
    pushed = [[layer.name for layer in step.layers if layer.pushes] for step in steps]
    assert [len(names) for names in pushed] == [3, 2, 3]
    assert all(len(training.plans_used(step)) == training.EPOCHS for step in steps)


def _with_callbacks(keras, strategy):
    """Trains under callbacks that set the learning rate; returns rates and losses."""
    model = training.build(keras, model_zoo.PROGRAMS["sequential"], strategy)
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (1 + epoch))
    plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=1, min_delta=10.0)
    results = [
        training.fit(keras, model, callbacks=[callback], epochs=4) for callback in (rates, plateau)
    ]
    rate = float(model.optimizer.learning_rate.numpy())
    return results, rate, [w.tolist() for w in training.all_weights(model)]


def test_callbacks_set_the_learning_rate(keras_api, cluster_1w2p):
    results = _both(keras_api, cluster_1w2p, _with_callbacks)
    assert results["ours"] == results["stock"]
    assert results["ours"][1] < 0.1 / 4


@pytest.mark.parametrize("push", [((1, 3),), ((3, 3), (2, 2), (1, 1))], ids=["one", "each"])
def test_iterations_grow_by_one_however_many_segments(keras_api, cluster_1w2p, push):
    plan = tf_dynacomm.Plan(((1, 3),), push)
    strategy = training.make_strategy(keras_api, cluster_1w2p, plan=plan)
    model = training.build(keras_api, model_zoo.PROGRAMS["sequential"], strategy)
    data = training.fit_data(keras_api, lambda: training.dataset("vectors"))
    for epochs in (1, 2):
        model.fit(data, steps_per_epoch=5, verbose=0)
        assert model.optimizer.iterations.numpy() == 5 * epochs
    assert training.plans_used(strategy.coordinator.training_step) == {plan}


@pytest.mark.parametrize("name", ["embedding", "sharded embedding"])
def test_clipping_by_the_norm_of_all_gradients(keras_api, cluster_1w2p, name):
    """The norm of sparse and dense gradients together, whole or in shards."""
    base = variable_zoo.PROGRAMS[name].of(keras_api)

    def clipped(keras):
        model = base.build(keras)
        return model_zoo.compiled(keras, model, keras.optimizers.Adam(0.01, global_clipnorm=0.1))

    program = training.Program(clipped, base.data, partitioner=base.partitioner)
    ours, stock = (
        training.train(keras_api, program, cluster_1w2p, stock=stock) for stock in (False, True)
    )
    training.assert_equal(ours, stock)


def test_a_layer_that_holds_most_bytes(keras_api, cluster_1w2p):
    """Segments are packed for each PS task by itself, and no byte is lost."""

    def uneven(keras):
        return model_zoo.stack(keras, model_zoo.dense(keras, 200), model_zoo.dense(keras, 200))

    step = training.train(keras_api, training.Program(uneven), cluster_1w2p, epochs=1).step
    kernel_bytes, sizes = 200 * 200 * 4, [layer.pull_bytes for layer in step.layers]
    assert sizes[1] == kernel_bytes + 200 * 4 > sum(sizes) / 2
    tasks = {p.variable.device for layer in step.layers for p in layer.pulls}
    assert len(tasks) == 2
    assert len(training.packs(step, "pull")) == 2 * len(step.plan.pull)


def test_it_is_a_parameter_server_strategy_with_all_that_stock_keeps(cluster_1w2p):
    ours, stock = (programs.make_strategy(cluster_1w2p, stock=stock) for stock in (False, True))
    assert isinstance(ours, tf.distribute.ParameterServerStrategy)
    assert isinstance(ours, tf.distribute.experimental.ParameterServerStrategy)
    assert vars(stock).keys() <= vars(ours).keys()
    assert vars(stock.extended).keys() <= vars(ours.extended).keys()
    assert ours._should_use_with_coordinator
    assert ours.num_replicas_in_sync == stock.num_replicas_in_sync
