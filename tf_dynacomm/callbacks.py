"""Callbacks for tf_keras and Keras 3: re-planning at epoch boundaries."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from absl import logging

from tf_dynacomm import epoch_report, replan, strategy


class Callback:
    """A callback for either Keras: it has all that each asks of one, and needs neither.

    No hook does anything until it is overridden; those of batches are not meant to be, since
    tf_keras allows none under `ParameterServerStrategy`.

    Attributes:
      model: The model that is being trained, of tf_keras or Keras 3.
      params: What Keras tells about the training.
    """

    def __init__(self):
        self.model = None
        self.params = None

    def set_model(self, model) -> None:
        """Takes the model."""
        self.model = model

    def set_params(self, params) -> None:
        """Takes the parameters of the training."""
        self.params = params

    def _do_nothing(self, *args, **kwargs) -> None:
        pass

    on_batch_begin = on_batch_end = _do_nothing
    on_epoch_begin = on_epoch_end = _do_nothing
    on_train_begin = on_train_end = on_train_batch_begin = on_train_batch_end = _do_nothing
    on_test_begin = on_test_end = on_test_batch_begin = on_test_batch_end = _do_nothing
    on_predict_begin = on_predict_end = on_predict_batch_begin = on_predict_batch_end = _do_nothing

    def _has_batch_hooks(self) -> bool:
        return False

    # The names by which tf_keras asks; Keras 3 calls the hooks without asking.
    _implements_train_batch_hooks = _has_batch_hooks
    _implements_test_batch_hooks = _has_batch_hooks
    _implements_predict_batch_hooks = _has_batch_hooks


class ReplanCallback(Callback):
    """Measures each epoch of `model.fit` and plans the next one's transfers anew.

    While an epoch runs, a trace of the workers and PS is captured in the background, turned into
    costs and the costs into a plan (see `Replanner`); at the epoch's end the training step switches
    to it. Only epoch hooks are used, so that the callback works at any place in the list. The model
    may be of tf_keras or of Keras 3. With another strategy it does nothing but say so.

    Args:
      logdir: Folder for traces (TensorBoard's profile plugin and XProf open it),
        `costs-<epoch>.json` and `plan-<epoch>.json`; nothing is kept if `None`.
      replan_every: Re-plan after so many training steps instead of at the end of epochs.
      min_gain: Share of the step time that a new plan must promise to save.
      plan_dir: Folder to keep the plans in force and their costs in at the end of each epoch,
        beside the checkpoints say. A training that is started again begins with them.
      on_report: Called with each epoch's `EpochReport`.

    Attributes:
      reports: The reports of the training's epochs so far.

    Raises:
      ValueError: If `replan_every` is no integer above 0.
    """

    def __init__(
        self,
        *,
        logdir: str | pathlib.Path | None = None,
        replan_every: int | None = None,
        min_gain: float = 0.01,
        plan_dir: str | pathlib.Path | None = None,
        on_report: Callable[[epoch_report.EpochReport], None] | None = None,
    ):
        super().__init__()
        replan.check_interval("replan_every", replan_every)
        self._logdir = logdir
        self._replan_every = replan_every
        self._min_gain = min_gain
        self._plan_dir = plan_dir
        self._on_report = on_report
        self._replanner: replan.Replanner | None = None
        self.reports: list[epoch_report.EpochReport] = []

    def on_train_begin(self, logs=None):
        """Begins anew; what an interrupted training left running is ended first."""
        self.on_train_end()
        self.reports = []
        used = self.model.distribute_strategy
        if isinstance(used, strategy.DynaCommStrategy):
            self._replanner = replan.Replanner(
                used,
                logdir=self._logdir,
                every_steps=self._replan_every,
                min_gain=self._min_gain,
                plan_dir=self._plan_dir,
            )
        else:
            logging.warning(
                "ReplanCallback does nothing: the model was made under %s, not DynaCommStrategy.",
                type(used).__name__,
            )

    def on_epoch_begin(self, epoch, logs=None):
        """Takes a trace while the epoch runs."""
        if self._replanner is not None:
            self._replanner.begin_epoch(self._remaining_steps(epoch))

    def on_epoch_end(self, epoch, logs=None):
        """Plans the next epoch and reports."""
        if self._replanner is None:
            return
        self.reports.append(self._replanner.end_epoch(epoch + 1))
        if self._on_report is not None:
            self._on_report(self.reports[-1])

    def on_train_end(self, logs=None):
        """Leaves nothing running."""
        if self._replanner is not None:
            self._replanner.close()
            self._replanner = None

    def _remaining_steps(self, epoch: int) -> int | None:
        """The steps that come after an epoch, if Keras knows how many an epoch has."""
        params = self.params or {}
        epochs, steps = params.get("epochs"), params.get("steps")
        return (epochs - epoch - 1) * steps if epochs and steps else None
