"""Tests of `tf_dynacomm.tools.training`."""

import io
import socket
import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tf_dynacomm
from tf_dynacomm import cluster_config, datasets
from tf_dynacomm.tools import command, training


def _settings(**changes) -> training.Settings:
    values = {
        "model": "small_cnn",
        "strategy": "stock",
        "strategy_kwargs": {},
        "callback_kwargs": {},
        "epochs": 2,
        "steps_per_epoch": 10,
        "batch_size": 4,
        "learning_rate": 0.01,
        "checkpoint_dir": None,
        "seed": 1,
    }
    return training.Settings(**{**values, **changes})


def _epoch(output: training.Output, number: int) -> None:
    output.on_epoch_begin(number - 1)
    output.on_epoch_end(number - 1, {"loss": 0.5})


def test_block_shows_what_the_callback_reports():
    reported = tf_dynacomm.EpochReport(1, 0.02, pull_segments_before=4, pull_segments_after=3)
    stream = io.StringIO()
    replan = types.SimpleNamespace(reports=[reported])
    output = training.Output(_settings(), lambda: 0, 1, replan, stream)

    _epoch(output, 1)

    assert output.reports == [reported]
    assert "pull 4 → 3" in stream.getvalue()


def test_step_time_of_stock_is_a_workers_share_of_the_epoch(monkeypatch):
    now_s = iter([100.0, 100.0, 105.0, 105.0, 105.0])
    monkeypatch.setattr(training.time, "monotonic", lambda: next(now_s))
    output = training.Output(_settings(steps_per_epoch=10), lambda: 0, 2, None, io.StringIO())

    _epoch(output, 1)

    assert output.reports[0].step_time_s == pytest.approx(1.0)  # 5 s for 10 steps of 2 workers.


def test_steps_of_stock_are_the_optimizers():
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    model.fit(np.ones((6, 1)), np.ones((6, 1)), batch_size=2, verbose=0)

    assert training._steps_finished(model)() == 3


@pytest.mark.parametrize("strategy", ["dynacomm", "stock"])
def test_cluster_that_does_not_answer_is_told(strategy):
    with socket.socket() as held:  # Bound, so that nobody else takes it, and not listening.
        held.bind(("127.0.0.1", 0))
        silent = f"127.0.0.1:{held.getsockname()[1]}"
        config = cluster_config.ClusterConfig({"worker": [silent], "ps": [silent]}, "chief", 0)
        settings = _settings(strategy=strategy, strategy_kwargs={"connect_timeout_s": 0.1})

        with pytest.raises(command.UserError, match=f"--connect_timeout: No answer from {silent}"):
            training._connect(settings, config)


def test_lost_task_is_named():
    error = tf.errors.UnavailableError(
        None, None, "2 errors\nfrom remote target /job:ps/replica:0/task:1/device:CPU:0 while"
    )

    assert training._what_is_lost(error).startswith("/job:ps/replica:0/task:1 does not answer")
    assert training._what_is_lost(tf.errors.UnavailableError(None, None, "?")).startswith("The cl")


def test_all_test_images_are_tested():
    data = datasets.load("digits")
    model = training._compiled_model(_settings(), data)

    _, accuracy = training._test(_settings(), data, model)

    predicted = model.predict(data.test_images, verbose=0).argmax(-1)
    assert accuracy == pytest.approx(np.mean(predicted == data.test_labels))


def test_checkpoints_only_on_request(tmp_path):
    assert training._checkpoints(_settings()) == []
    assert len(training._checkpoints(_settings(checkpoint_dir=str(tmp_path)))) == 2


def test_evaluator_ends_with_the_last_epochs_checkpoint(tmp_path, capsys):
    settings, data = _settings(epochs=2, checkpoint_dir=str(tmp_path)), datasets.load("digits")
    model = training._compiled_model(settings, data)
    model.save_weights(tmp_path / "ckpt-2")

    training.evaluate_checkpoints(settings, data)

    assert "accuracy" in capsys.readouterr().out
