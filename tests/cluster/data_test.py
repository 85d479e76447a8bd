"""Whatever feeds the training: batches, labels, weights and tables in the dataset function."""

import numpy as np
import pytest
import tensorflow as tf

from tests.cluster import model_zoo, training, variable_zoo

pytestmark = pytest.mark.cluster

_VECTORS = model_zoo.PROGRAMS["sequential"]


def _train(keras, cluster_spec, data, *, stock, program=_VECTORS, **kwargs):
    """Trains on `data()`; returns the strategy and all that was learnt."""
    strategy = training.make_strategy(keras, cluster_spec, stock=stock)
    model = training.build(keras, program, strategy)
    switch = training.another_plan_each_epoch(keras, strategy)
    fit = {"epochs": 3, "steps_per_epoch": 3, "verbose": 0, "callbacks": [switch]}
    inputs, *labels = data(keras)
    history = model.fit(inputs, *labels, **fit, **kwargs).history
    step = None if stock else strategy.coordinator.training_step
    return strategy, training.Outcome(model, history, training.all_weights(model), step)


def _assert_as_under_stock(keras, cluster_spec, data, **kwargs):
    strategy, ours = _train(keras, cluster_spec, data, stock=False, **kwargs)
    _, stock = _train(keras, cluster_spec, data, stock=True, **kwargs)
    training.assert_equal(ours, stock)
    assert len(training.plans_used(ours.step)) == 3
    return strategy


def _ragged(keras):
    rows = tf.data.Dataset.from_tensor_slices
    arrays = [a[:20] for a in training.arrays("vectors")]
    return (training.fit_data(keras, lambda: rows(tuple(arrays)).batch(8).repeat()),)


def test_a_short_last_batch_needs_no_step_of_its_own(keras_api, cluster_1w2p):
    strategy = _assert_as_under_stock(keras_api, cluster_1w2p, _ragged)
    (step,) = strategy.coordinator.steps
    assert len(step.times.latest()) == 9


def _weighted(keras):
    rows = (*training.arrays("vectors"), np.linspace(0, 1, 24, dtype=np.float32))
    dataset = tf.data.Dataset.from_tensor_slices
    return (training.fit_data(keras, lambda: dataset(rows).repeat().batch(8)),)


def _texts(keras):
    """Words that a lookup table in the dataset function turns into numbers."""

    def dataset():
        words = tf.constant(["red", "green", "blue"])
        numbers = tf.lookup.KeyValueTensorInitializer(words, tf.range(1, 4, dtype=tf.int64))
        table = tf.lookup.StaticHashTable(numbers, 0)
        return training.dataset("texts").map(lambda text, label: (table.lookup(text), label))

    return (training.fit_data(keras, dataset),)


_DATA = {
    "arrays": (lambda keras: training.arrays("vectors"), {"batch_size": 8}),
    "dataset": (lambda keras: (training.dataset("vectors"),), {}),
    "sample weights": (_weighted, {}),
    "class weights": (
        lambda keras: (training.fit_data(keras, lambda: training.dataset("vectors")),),
        {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0}},
    ),
    "lookup table": (_texts, {"program": variable_zoo.PROGRAMS["embedding"]}),
}


@pytest.mark.parametrize("kind", _DATA)
def test_numbers_equal_stock_bit_for_bit(keras_api, cluster_1w2p, kind):
    data, kwargs = _DATA[kind]
    _assert_as_under_stock(keras_api, cluster_1w2p, data, **kwargs)


def test_inputs_in_a_structure(keras_api, cluster_1w2p):
    """Two named inputs of different dtypes, and two named outputs."""

    def build(keras):
        vector, number = keras.Input((8,), name="vector"), keras.Input((), dtype="int64", name="n")
        embedded = keras.layers.Embedding(4, 6, name="table")(number)
        hidden = model_zoo.dense(keras)(vector) + embedded
        outputs = {name: model_zoo.dense(keras, 1, name=name)(hidden) for name in ("a", "b")}
        model = keras.Model({"vector": vector, "n": number}, outputs)
        model.compile("adam", {"a": "mse", "b": "mae"}, loss_weights={"a": 1.0, "b": 0.5})
        return model

    def named(keras):
        def dataset():
            rows = training.dataset("vectors")
            return rows.map(lambda x, y: ({"vector": x, "n": y}, {"a": y[:, None], "b": x[:, :1]}))

        return (training.fit_data(keras, dataset),)

    _assert_as_under_stock(keras_api, cluster_1w2p, named, program=training.Program(build))
