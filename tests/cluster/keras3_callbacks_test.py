"""Keras 3's callbacks on a real cluster."""

import csv
import inspect
import re

import keras
import numpy as np
import pytest

import tf_dynacomm
from tests.cluster import keras3_programs, programs

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def strategy(cluster_2w2p):
    return programs.make_strategy(cluster_2w2p)


@pytest.fixture
def model(strategy):
    return keras3_programs.build(strategy)


def _fit(model, callbacks, epochs=3, **options):
    images, labels = keras3_programs.data()
    options = {"verbose": 0, "batch_size": 8, **options}
    return model.fit(images, labels, epochs=epochs, callbacks=callbacks, **options).history


def test_replan_callback_reports_each_epoch(model):
    callback = tf_dynacomm.ReplanCallback()
    _fit(model, [callback])
    assert [r.epoch for r in callback.reports] == [1, 2, 3]
    assert all(r.step_time_s > 0 for r in callback.reports)


def test_early_stopping_restores_the_best_weights(model):
    after = []

    def script(epoch, logs):
        logs["scripted"] = [2.0, 1.0, 3.0, 0.0][epoch]
        after.append(model.get_weights())

    scripted = keras.callbacks.LambdaCallback(on_epoch_end=script)
    stopping = keras.callbacks.EarlyStopping("scripted", mode="min", restore_best_weights=True)
    _fit(model, [scripted, stopping], epochs=4)
    assert model.optimizer.iterations == 3 * 8
    for ours, best in zip(model.get_weights(), after[1], strict=True):
        np.testing.assert_array_equal(ours, best)


def test_checkpoints_are_loaded_outside(model, tmp_path):
    whole, weights = tmp_path / "{epoch}.keras", tmp_path / "{epoch}.weights.h5"
    checkpoints = keras.callbacks.ModelCheckpoint
    _fit(model, [checkpoints(whole), checkpoints(weights, save_weights_only=True)], epochs=2)
    loaded = keras.models.load_model(tmp_path / "2.keras")
    other = keras3_programs.build()
    other.load_weights(tmp_path / "2.weights.h5")
    for ours, theirs, again in zip(
        model.get_weights(), loaded.get_weights(), other.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(ours, again)


def test_an_interrupted_training_is_taken_up(strategy, model, tmp_path):
    def interrupt(epoch, logs):
        if epoch == 1:
            raise KeyboardInterrupt

    interruption = keras.callbacks.LambdaCallback(on_epoch_begin=interrupt)
    with pytest.raises(KeyboardInterrupt):
        _fit(model, [keras.callbacks.BackupAndRestore(tmp_path), interruption])
    again = keras3_programs.build(strategy)
    history = _fit(again, [keras.callbacks.BackupAndRestore(tmp_path)])
    assert len(history["loss"]) == 2
    assert again.optimizer.iterations == 3 * 8


def test_metrics_are_written_for_each_epoch(model, tmp_path):
    history = _fit(model, [keras.callbacks.CSVLogger(tmp_path / "log.csv")])
    with open(tmp_path / "log.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == history["loss"]


def test_tensorboard_writes_events(model, tmp_path):
    board = keras.callbacks.TensorBoard(tmp_path, histogram_freq=1, update_freq=2)
    _fit(model, [board], validation_data=keras3_programs.data())
    assert list(tmp_path.glob("train/events*"))
    assert list(tmp_path.glob("validation/events*"))


def test_the_learning_rate_follows_its_callbacks(model):
    scheduler = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    history = _fit(model, [scheduler])
    np.testing.assert_allclose(history["learning_rate"], [0.005, 0.0025, 0.00125])


def test_the_learning_rate_follows_a_schedule(strategy):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=8, decay_rate=0.5)
    model = keras3_programs.build(strategy, optimizer=lambda: keras.optimizers.SGD(schedule))
    _fit(model, [], epochs=2)
    np.testing.assert_allclose(float(model.optimizer.learning_rate), 0.025)


@pytest.mark.skipif(
    "stateless_metrics" not in inspect.signature(keras.utils.Progbar).parameters,
    reason="The bar of this Keras shows an average of the averages it was told, in any training.",
)
def test_the_progress_bar_ends_with_the_epochs_metrics(model, capsys):
    history = _fit(model, [], epochs=1, verbose=1)
    shown = re.findall(r"8/8.*loss: ([\d.]+)", capsys.readouterr().out)
    assert shown[-1] == f"{history['loss'][0]:.4f}"


def test_training_stops_where_a_callback_says(model):
    def stop(batch, logs):
        model.stop_training = batch == 2

    _fit(model, [keras.callbacks.LambdaCallback(on_train_batch_end=stop)])
    assert model.optimizer.iterations == 3


def test_what_an_interrupted_epoch_left_does_not_count_in_the_next(model):
    def fail(batch, logs):
        raise RuntimeError("in a callback")

    with pytest.raises(RuntimeError, match="in a callback"):
        _fit(model, [keras.callbacks.LambdaCallback(on_train_batch_end=fail)])
    seen = []
    counting = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(float(model.metrics[0].count))
    )
    _fit(model, [counting], epochs=1)
    assert seen == [60.0]
