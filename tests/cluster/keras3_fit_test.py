"""`fit`, `evaluate` and `predict` of Keras 3 on real clusters."""

import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.cluster import keras3_programs, programs

pytestmark = pytest.mark.cluster

_ENOUGH = 100  # Epochs in which each worker will get some step, however slow it is.
_LABEL_SUM = float(np.sum(keras3_programs.data()[1]))


@pytest.fixture(scope="module", params=["dynacomm", "stock"])
def strategy(request, cluster_2w2p):
    return programs.make_strategy(cluster_2w2p, scheduler=request.param)


def _dataset_fn(context):
    return keras3_programs.dataset()


class _Logs(keras.callbacks.Callback):
    """Collects the steps' logs until some values of them have been seen, in so many ways."""

    def __init__(self, *keys, ways=0):
        super().__init__()
        self.seen = []
        self._keys = keys
        self._ways = ways

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = len(self.values) >= self._ways

    @property
    def values(self) -> set[tuple]:
        """The combinations of values seen."""
        return {tuple(logs[key] for key in self._keys) for logs in self.seen}

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(dict(logs))

    on_test_batch_end = on_train_batch_end

    @property
    def pids(self) -> set[int]:
        return {int(logs["pid"]) for logs in self.seen}


def _jobs(pids) -> list[str]:
    """What the processes are in the cluster."""
    environments = [pathlib.Path(f"/proc/{pid}/environ").read_text() for pid in pids]
    return sorted("worker" if '"type": "worker"' in e else "other" for e in environments)


_DATA = {
    "dataset": lambda: {"x": keras3_programs.dataset()},
    "arrays": lambda: dict(zip("xy", keras3_programs.data(), strict=True), batch_size=8),
    "PyDataset": lambda: {"x": keras3_programs.Sequence()},
    "function": lambda: {"x": _dataset_fn},
}


@pytest.mark.parametrize("kind", _DATA)
def test_all_steps_run_on_workers_and_both_get_some(strategy, kind):
    model, training, evaluation = (
        keras3_programs.build_teller(strategy),
        _Logs("pid", ways=2),
        _Logs(),
    )
    model.fit(**_DATA[kind](), epochs=_ENOUGH, verbose=0, callbacks=[training])
    model.evaluate(**_DATA[kind](), verbose=0, callbacks=[evaluation])
    assert _jobs(training.pids) == ["worker", "worker"]
    assert evaluation.pids <= training.pids
    _, predicting = model.predict(keras3_programs.data()[0], batch_size=8, verbose=0)
    assert set(predicting) <= training.pids
    assert os.getpid() not in training.pids


@pytest.mark.parametrize("kind", _DATA)
def test_an_epoch_is_one_pass_of_all_workers_together(strategy, kind):
    model = keras3_programs.build(strategy)
    history = model.fit(**_DATA[kind](), epochs=2, verbose=0).history
    assert model.optimizer.iterations == 2 * 8
    assert set(history) == {"accuracy", "loss"}


@pytest.mark.parametrize("kind", ["arrays", "PyDataset"])
def test_what_the_chief_reads_is_trained_on_exactly_once(strategy, kind):
    model = keras3_programs.build_teller(strategy)
    model.fit(**_DATA[kind](), epochs=2, verbose=0)
    assert float(model.label_sum.result()) == _LABEL_SUM


def test_each_worker_has_a_share_of_a_dataset(strategy):
    even_and_odd = tf.data.Dataset.range(80).batch(1).map(lambda n: (tf.ones([1, 8, 8, 1]), n % 2))
    logs = _Logs("pid", "label", ways=2)
    keras3_programs.build_teller(strategy).fit(
        even_and_odd, epochs=_ENOUGH, verbose=0, callbacks=[logs]
    )
    assert sorted(label for _, label in logs.values) == [0, 1]
    assert len(logs.pids) == 2


def test_each_worker_has_all_of_a_dataset_that_is_not_to_be_sharded(strategy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    even_and_odd = tf.data.Dataset.range(80).batch(1).map(lambda n: (tf.ones([1, 8, 8, 1]), n % 2))
    logs = _Logs("pid", "label", ways=4)
    dataset = even_and_odd.with_options(options)
    keras3_programs.build_teller(strategy).fit(dataset, epochs=_ENOUGH, verbose=0, callbacks=[logs])
    assert sorted(label for _, label in logs.values) == [0, 0, 1, 1]


@pytest.mark.parametrize("kind", _DATA)
def test_evaluation_counts_each_example_exactly_once(strategy, kind):
    model = keras3_programs.build(strategy)
    ours = model.evaluate(**_DATA[kind](), verbose=0, return_dict=True)
    plain = keras3_programs.build()
    expected = plain.evaluate(keras3_programs.dataset(), verbose=0, return_dict=True)
    assert ours["accuracy"] == expected["accuracy"]
    np.testing.assert_allclose(ours["loss"], expected["loss"], rtol=1e-6)


@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_predictions_keep_their_order(strategy, steps_per_execution):
    model = keras3_programs.build_teller(strategy)
    model.steps_per_execution = steps_per_execution
    images = keras3_programs.data()[0]
    for x in (images, keras3_programs.dataset(), keras3_programs.Sequence(), _dataset_fn):
        first, _ = model.predict(x, batch_size=8 if x is images else None, verbose=0)
        np.testing.assert_array_equal(first, images[:, 0, 0, 0])
    first, _ = model.predict(keras3_programs.dataset().repeat(), steps=3, verbose=0)
    np.testing.assert_array_equal(first, images[:24, 0, 0, 0])


@pytest.mark.parametrize("kind", _DATA)
def test_an_execution_of_several_steps_ends_with_the_data(strategy, kind):
    model = keras3_programs.build(strategy, steps_per_execution=3)
    model.fit(**_DATA[kind](), epochs=2, verbose=0)
    assert model.optimizer.iterations == 2 * 8


def test_steps_per_epoch_are_those_of_all_workers_together(strategy):
    model = keras3_programs.build(strategy)
    model.fit(keras3_programs.dataset().repeat(), steps_per_epoch=5, epochs=2, verbose=0)
    assert model.optimizer.iterations == 2 * 5


@pytest.mark.parametrize("endless", [keras3_programs.dataset().repeat, None])
def test_endless_data_needs_a_number_of_steps(strategy, endless):
    model = keras3_programs.build(strategy)
    x = endless() if endless else lambda context: keras3_programs.dataset().repeat()
    with pytest.raises(ValueError, match=r"`steps_per_epoch` \(None\) must be given"):
        model.fit(x, verbose=0)
    with pytest.raises(ValueError, match=r"`validation_steps` \(None\) must be given"):
        model.fit(keras3_programs.dataset(), validation_data=x, verbose=0)
    for entry_point in (model.evaluate, model.predict):
        with pytest.raises(ValueError, match=r"`steps` \(None\) must be given"):
            entry_point(x, verbose=0)


def test_validation_is_that_of_evaluate(strategy):
    model = keras3_programs.build(strategy)
    images, labels = keras3_programs.data()
    history = model.fit(
        images, labels, validation_data=(images, labels), validation_batch_size=8, verbose=0
    ).history
    again = model.evaluate(images, labels, batch_size=8, verbose=0, return_dict=True)
    assert history["val_accuracy"] == [again["accuracy"]]


def test_arrays_are_split_for_validation(strategy):
    model = keras3_programs.build(strategy)
    images, labels = keras3_programs.data()
    history = model.fit(images, labels, batch_size=8, validation_split=0.2, verbose=0).history
    assert model.optimizer.iterations == 6
    assert len(history["val_loss"]) == 1


def test_single_batches_are_trained_tested_and_predicted(strategy):
    model = keras3_programs.build(strategy)
    images, labels = keras3_programs.data()
    logs = model.train_on_batch(images[:8], labels[:8], return_dict=True)
    assert set(logs) == {"accuracy", "loss"}
    assert model.optimizer.iterations == 1
    tested = model.test_on_batch(images[:8], labels[:8], return_dict=True)
    assert set(tested) == {"accuracy", "loss"}
    predicted = model.predict_on_batch(images[:8])
    np.testing.assert_array_equal(predicted, model.predict(images[:8], verbose=0))


def test_a_model_that_was_never_compiled_predicts(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.Input([8, 8, 1]), keras.layers.Flatten()])
        model.add(keras.layers.Dense(3))
    images, _ = keras3_programs.data()
    np.testing.assert_allclose(model.predict(images, verbose=0), model(images), rtol=1e-6)


def test_a_model_may_be_compiled_outside_the_scope(strategy):
    model = keras3_programs.build(strategy)
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(np.ones([8, 8, 8, 1]), np.ones([8, 10]), verbose=0)
    assert model.optimizer.iterations == 1


def test_an_optimizer_from_outside_the_scope_is_refused(strategy):
    """Its variables would be on the chief."""
    optimizer = keras.optimizers.SGD()
    model = keras3_programs.build(strategy, optimizer=lambda: optimizer)
    with pytest.raises(
        ValueError, match=r"(?i)'sgd\w*/iteration' .* must be on a parameter server"
    ):
        model.fit(keras3_programs.dataset(), verbose=0)


def test_variables_in_several_pieces_are_refused(cluster_2w2p):
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    strategy = programs.make_strategy(cluster_2w2p, variable_partitioner=partitioner)
    model = keras3_programs.build(strategy)
    with pytest.raises(ValueError, match=r"conv2d.*/kernel' must be in one piece with Keras 3"):
        model.fit(keras3_programs.dataset(), verbose=0)


def test_a_failing_step_ends_fit_and_the_next_one_works(strategy):
    model = keras3_programs.build(strategy)

    def fails(images, labels):
        return tf.debugging.check_numerics(images / 0.0, "not a number"), labels

    with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
        model.fit(keras3_programs.dataset().map(fails), verbose=0)
    history = model.fit(keras3_programs.dataset(), verbose=0).history
    assert np.isfinite(history["loss"]).all()
