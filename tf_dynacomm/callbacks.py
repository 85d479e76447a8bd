"""Keras callbacks: re-planning at epoch boundaries."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import tf_keras
from absl import logging

from tf_dynacomm import replan, strategy


class ReplanCallback(tf_keras.callbacks.Callback):
    """Measures each epoch of `model.fit` and plans the next one's transfers anew.

    While an epoch runs, a trace of the workers and PS is captured in the background, turned into
    costs and the costs into a plan (see `Replanner`); at the epoch's end the training step switches
    to it. Only epoch hooks are used, since `ParameterServerStrategy` allows no others, so that the
    callback works at any place in the list. With another strategy it does nothing but say so.

    Args:
      logdir: Folder for traces (TensorBoard's profile plugin and XProf open it),
        `costs-<epoch>.json` and `plan-<epoch>.json`; nothing is kept if `None`.
      replan_every: Re-plan after so many training steps instead of at the end of epochs.
      min_gain: Share of the step time that a new plan must promise to save.
      on_report: Called with each epoch's `EpochReport`.

    Attributes:
      reports: The reports of all epochs so far.

    Raises:
      ValueError: If `replan_every` is less than 1.
    """

    def __init__(
        self,
        *,
        logdir: str | pathlib.Path | None = None,
        replan_every: int | None = None,
        min_gain: float = 0.01,
        on_report: Callable[[replan.EpochReport], None] | None = None,
    ):
        super().__init__()
        if replan_every is not None and replan_every < 1:
            raise ValueError(f"`replan_every` ({replan_every}) must be at least 1, or None.")
        self._logdir = logdir
        self._replan_every = replan_every
        self._min_gain = min_gain
        self._on_report = on_report
        self._replanner: replan.Replanner | None = None
        self.reports: list[replan.EpochReport] = []

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
            )
        else:
            logging.warning(
                "ReplanCallback does nothing: the model was made under %s, not DynaCommStrategy.",
                type(used).__name__,
            )

    def on_epoch_begin(self, epoch, logs=None):
        """Takes a trace while the epoch runs."""
        if self._replanner is not None:
            self._replanner.begin_epoch()

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
