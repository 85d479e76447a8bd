import importlib
import os
import subprocess
import sys
import types
from unittest import mock

import pytest

from tf_dynacomm import callbacks, epoch_report, replan, strategy


class _Other:
    """Another strategy."""


@pytest.fixture
def replanner():
    """Stands in for the `Replanner`: reports each epoch by its number."""
    scripted = mock.create_autospec(replan.Replanner, instance=True)
    scripted.end_epoch.side_effect = lambda epoch: epoch_report.EpochReport(epoch, step_time_s=0.5)
    with mock.patch.object(replan, "Replanner", return_value=scripted) as made:
        scripted.made = made
        yield scripted


@pytest.fixture
def make_callback(replanner):
    """Makes a callback on a model that was made under a strategy."""

    def make(used=None, **kwargs):
        callback = callbacks.ReplanCallback(**kwargs)
        used = used or mock.create_autospec(strategy.DynaCommStrategy, instance=True)
        callback.set_model(types.SimpleNamespace(distribute_strategy=used))
        return callback

    return make


def _fit(callback, epochs):
    """Calls the hooks as `model.fit` does."""
    callback.on_train_begin()
    for epoch in range(epochs):
        callback.on_epoch_begin(epoch)
        callback.on_epoch_end(epoch, {"loss": 0.1})
    callback.on_train_end()


def test_each_epoch_is_begun_and_ended_and_the_training_closed(make_callback, replanner):
    _fit(make_callback(), 2)
    assert replanner.mock_calls == [
        mock.call.begin_epoch(None),
        mock.call.end_epoch(1),
        mock.call.begin_epoch(None),
        mock.call.end_epoch(2),
        mock.call.close(),
    ]


def test_the_steps_that_remain_are_told(make_callback, replanner):
    callback = make_callback()
    callback.set_params({"epochs": 3, "steps": 10})
    _fit(callback, 3)
    begun = [call for call in replanner.mock_calls if call == mock.call.begin_epoch(mock.ANY)]
    assert [call.args for call in begun] == [(20,), (10,), (0,)]


def test_reports_are_kept_and_handed_on(make_callback):
    handed = []
    callback = make_callback(on_report=handed.append)
    _fit(callback, 3)
    assert [r.epoch for r in callback.reports] == [1, 2, 3]
    assert handed == callback.reports


def test_a_second_training_begins_anew(make_callback, replanner):
    callback = make_callback()
    _fit(callback, 3)
    _fit(callback, 1)
    assert [r.epoch for r in callback.reports] == [1]
    assert (replanner.made.call_count, replanner.close.call_count) == (2, 2)


def test_its_settings_are_those_of_the_replanner(make_callback, replanner, tmp_path):
    callback = make_callback(logdir=tmp_path, replan_every=7, min_gain=0.2, plan_dir="kept")
    callback.on_train_begin()
    replanner.made.assert_called_once_with(
        callback.model.distribute_strategy,
        logdir=tmp_path,
        every_steps=7,
        min_gain=0.2,
        plan_dir="kept",
    )


def test_under_another_strategy_it_only_says_so(make_callback, replanner, caplog):
    callback = make_callback(_Other())
    _fit(callback, 2)
    assert callback.reports == []
    replanner.made.assert_not_called()
    assert "the model was made under _Other, not DynaCommStrategy" in caplog.text


def test_an_interrupted_training_is_closed_before_the_next(make_callback, replanner):
    callback = make_callback()
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    callback.on_train_begin()
    assert (replanner.made.call_count, replanner.close.call_count) == (2, 1)


def test_ending_twice_closes_once(make_callback, replanner):
    callback = make_callback()
    _fit(callback, 1)
    callback.on_train_end()
    assert replanner.close.call_count == 1


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_it_has_the_hooks_of_each_keras(library):
    theirs = importlib.import_module(library).callbacks.Callback
    hooks = {name for name in dir(theirs) if name.startswith(("on_", "set_", "_implements_"))}
    assert hooks <= set(dir(callbacks.ReplanCallback))


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_each_keras_calls_it(make_callback, replanner, library):
    """As in a `fit` with validation and batches."""
    module = importlib.import_module(library).callbacks
    callback = make_callback()
    hooks = module.CallbackList([callback], add_history=False)
    hooks.on_train_begin()
    hooks.on_epoch_begin(0)
    for name in ("train_batch_begin", "train_batch_end", "test_batch_begin", "test_batch_end"):
        getattr(hooks, f"on_{name}")(0, {})
    hooks.on_epoch_end(0, {"loss": 0.1})
    hooks.on_train_end()
    assert [r.epoch for r in callback.reports] == [1]


def test_it_has_no_hooks_for_batches():
    """`ParameterServerStrategy` refuses callbacks that do with tf_keras."""
    callback = callbacks.ReplanCallback()
    assert not callback._implements_train_batch_hooks()
    for name in (n for n in dir(callback) if "batch" in n and n.startswith("on_")):
        assert getattr(callback, name)(0, {"loss": 0.1}) is None
        assert name not in vars(callbacks.ReplanCallback)


@pytest.mark.parametrize(("used", "other"), [("keras", "tf_keras"), ("tf_keras", "keras")])
def test_neither_keras_is_imported(used, other):
    """TensorFlow itself imports the one that `TF_USE_LEGACY_KERAS` names."""
    program = f"import sys, {used}, tf_dynacomm.callbacks; sys.exit('{other}' in sys.modules)"
    environment = os.environ | {"TF_USE_LEGACY_KERAS": str(int(used == "tf_keras"))}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.parametrize("replan_every", [0, -3])
def test_replan_every_must_be_positive(replan_every):
    with pytest.raises(
        ValueError, match=rf"`replan_every` \({replan_every}\) must be an integer above 0"
    ):
        callbacks.ReplanCallback(replan_every=replan_every)
