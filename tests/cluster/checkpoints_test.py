"""What one strategy saves the other loads, and so does a program without any."""

import numpy as np
import pytest
import tensorflow as tf

from tests.cluster import model_zoo, programs, training, variable_zoo

pytestmark = pytest.mark.cluster

_BOTH_WAYS = pytest.mark.parametrize(
    "stock_first", [True, False], ids=["stock to ours", "ours to stock"]
)


def _model(keras, program, cluster_spec, *, stock):
    strategy = training.make_strategy(
        keras, cluster_spec, stock=stock, variable_partitioner=program.partitioner
    )
    return training.build(keras, program, strategy)


def _trained_and_restored(keras, program, cluster_spec, folder, *, stock_first):
    """A trained model, and one under the other strategy that has read its checkpoint."""
    trained = training.train(keras, program, cluster_spec, stock=stock_first).model
    path = tf.train.Checkpoint(model=trained).save(folder / "checkpoint")
    restored = _model(keras, program, cluster_spec, stock=not stock_first)
    return trained, restored, tf.train.Checkpoint(model=restored).restore(path)


def _assert_equal(weights, others):
    for weight, other in zip(weights, others, strict=True):
        np.testing.assert_array_equal(weight, other)


@pytest.fixture(scope="module", params=["convolutions", "GAN"])
def program(request, keras_api):
    return model_zoo.PROGRAMS[request.param].of(keras_api)


@pytest.fixture(scope="module")
def trained_twice(keras_api, program, cluster_1w2p):
    """The weights after two trainings under stock's strategy, without a break."""
    model = _model(keras_api, program, cluster_1w2p, stock=True)
    for _ in range(2):
        training.fit(keras_api, model, program.data)
    return training.all_weights(model)


@_BOTH_WAYS
def test_a_training_goes_on_under_the_other_strategy(
    keras_api, program, cluster_1w2p, trained_twice, tmp_path, stock_first
):
    _, restored, _ = _trained_and_restored(
        keras_api, program, cluster_1w2p, tmp_path, stock_first=stock_first
    )
    training.fit(keras_api, restored, program.data)
    _assert_equal(training.all_weights(restored), trained_twice)


@_BOTH_WAYS
def test_shards_are_restored_under_the_other_strategy(
    keras_api, cluster_1w2p, tmp_path, stock_first
):
    program = variable_zoo.PROGRAMS["sharded embedding"].of(keras_api)
    trained, restored, status = _trained_and_restored(
        keras_api, program, cluster_1w2p, tmp_path, stock_first=stock_first
    )
    status.assert_existing_objects_matched()
    _assert_equal(training.values(restored.weights), training.values(trained.weights))


@pytest.fixture(scope="module")
def trained(keras_api, cluster_1w2p):
    """A trained model, with a lookup table, an embedding and two dense layers."""
    return training.train(keras_api, variable_zoo.PROGRAMS["lookup layer"], cluster_1w2p).model


def _predicted(model):
    return tf.function(model)(tf.constant(training.arrays("texts")[0])).numpy()


@pytest.mark.parametrize("name", ["model.keras", "model"])
def test_a_saved_model_loads_without_a_strategy(keras_api, trained, tmp_path, name):
    if name == "model" and keras_api.__name__ == "keras":
        pytest.skip("Keras 3 exports models to folders, and saves none there.")
    trained.save(tmp_path / name)
    loaded = keras_api.models.load_model(tmp_path / name)
    np.testing.assert_array_equal(_predicted(loaded), _predicted(trained))


def test_an_exported_model_serves_without_keras(trained, tmp_path):
    trained.export(str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported"))
    texts = tf.constant(training.arrays("texts")[0])
    np.testing.assert_array_equal(served.serve(texts), _predicted(trained))


def test_the_saved_model_of_a_module_serves_without_a_strategy(cluster_1w2p, tmp_path):
    with programs.make_strategy(cluster_1w2p).scope():
        module = tf.Module()
        module.kernel = tf.Variable(tf.ones([8, 2]), name="kernel")
    module.serve = tf.function(
        lambda x: x @ module.kernel, input_signature=[tf.TensorSpec([None, 8])]
    )
    tf.saved_model.save(module, tmp_path)
    served = tf.saved_model.load(tmp_path)
    np.testing.assert_array_equal(served.serve(tf.ones([1, 8])), np.full([1, 2], 8))


def test_weights_in_a_file_load_under_the_other_strategy(keras_api, cluster_1w2p, tmp_path):
    program = model_zoo.PROGRAMS["convolutions"]
    ours = training.train(keras_api, program, cluster_1w2p).model
    ours.save_weights(tmp_path / "model.weights.h5")
    stock = _model(keras_api, program, cluster_1w2p, stock=True)
    stock.load_weights(tmp_path / "model.weights.h5")
    _assert_equal(stock.get_weights(), ours.get_weights())
