"""What the chief and the evaluator of `dynacomm-train` do."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import tensorflow as tf
import tf_keras

import tf_dynacomm
from tf_dynacomm import cluster_config, datasets, models
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.tools import command, progress, report

_EVALUATION_BATCH_SIZE = 256


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to train and how.

    Attributes:
      model: Name of a model of `tf_dynacomm.models`.
      strategy: `"dynacomm"` or `"stock"`.
      strategy_kwargs: Keyword arguments of `DynaCommStrategy`.
      callback_kwargs: Keyword arguments of `ReplanCallback`.
      epochs: Number of epochs.
      steps_per_epoch: Steps of an epoch, of all workers together.
      batch_size: Images in a step.
      learning_rate: Adam's learning rate.
      checkpoint_dir: Folder for checkpoints, if any.
      seed: Seed of the initial weights and, with one worker, of the order of the data.
    """

    model: str
    strategy: str
    strategy_kwargs: dict[str, Any]
    callback_kwargs: dict[str, Any]
    epochs: int
    steps_per_epoch: int
    batch_size: int
    learning_rate: float
    checkpoint_dir: str | None
    seed: int


class Output(tf_keras.callbacks.Callback):
    """Shows the progress within epochs, and a block after each.

    Args:
      settings: The training's settings.
      steps_finished: Returns how many steps have been finished so far.
      workers: Number of workers.
      replan: The callback that reports on epochs, called before this one, if there is one.
      stream: Where the blocks go.
    """

    def __init__(
        self,
        settings: Settings,
        steps_finished: Callable[[], int],
        workers: int,
        replan: tf_dynacomm.ReplanCallback | None,
        stream: TextIO = sys.stdout,
    ):
        super().__init__()
        self._progress = progress.Progress(
            settings.epochs, settings.steps_per_epoch, steps_finished
        )
        self._replan = replan
        self._step_share_of_epoch = workers / settings.steps_per_epoch
        self._stream = stream
        self.reports: list[tf_dynacomm.EpochReport] = []

    def on_epoch_begin(self, epoch, logs=None):
        """Starts the progress line."""
        self._begun_s = time.monotonic()
        self._progress.begin_epoch(epoch + 1)

    def on_epoch_end(self, epoch, logs=None):
        """Ends the progress line and prints the block."""
        duration_s = time.monotonic() - self._begun_s
        self._progress.end_epoch()
        if self._replan is not None:
            self.reports.append(self._replan.reports[-1])
        else:
            step_time_s = duration_s * self._step_share_of_epoch
            self.reports.append(tf_dynacomm.EpochReport(epoch + 1, step_time_s))
        print(report.epoch_block(self.reports[-1], logs or {}), file=self._stream, flush=True)

    def close(self) -> None:
        """Ends the progress line if training was cut short."""
        self._progress.close()


def train(
    settings: Settings, config: cluster_config.ClusterConfig, data: datasets.ImageDataset
) -> dict[str, Any]:
    """Trains as the chief of a cluster, tells the user about it, and tests the model.

    Returns:
      The summary (see `report.summary`).

    Raises:
      UserError: The cluster does not answer, or not any more; the plan is for another model.
    """
    tf_keras.utils.set_random_seed(settings.seed)
    strategy = _connect(settings, config)
    try:
        with strategy.scope():
            model = _compiled_model(settings, data)
        output = _fit(settings, data, model, workers=len(config.cluster["worker"]))
        test_loss, test_accuracy = _test(settings, data, model)
    except tf.errors.UnavailableError as error:
        raise command.UserError(_what_is_lost(error)) from error
    except plan_lib.PlanMismatchError as error:
        raise command.UserError(f"--plan: {error}") from error
    print(report.table(output.reports))
    print(f"test accuracy {test_accuracy:.2%}", flush=True)
    return report.summary(output.reports, test_accuracy=test_accuracy, test_loss=test_loss)


def evaluate_checkpoints(settings: Settings, data: datasets.ImageDataset) -> None:
    """Tests each checkpoint that the chief writes, until that of the last epoch."""
    tests = tf.data.Dataset.from_tensor_slices((data.test_images, data.test_labels))
    tf_keras.utils.SidecarEvaluator(
        _compiled_model(settings, data),
        tests.batch(_EVALUATION_BATCH_SIZE),
        settings.checkpoint_dir,
        max_evaluations=settings.epochs,
    ).start()


def _connect(
    settings: Settings, config: cluster_config.ClusterConfig
) -> tf.distribute.ParameterServerStrategy:
    cluster = config.training_cluster
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster),
        task_type="chief" if "chief" in cluster else None,
        task_id=config.task if "chief" in cluster else None,
        rpc_layer="grpc",
    )
    try:
        if settings.strategy != "stock":
            return tf_dynacomm.DynaCommStrategy(resolver, **settings.strategy_kwargs)
        cluster_config.wait_for_cluster(
            cluster["worker"] + cluster["ps"], settings.strategy_kwargs["connect_timeout_s"]
        )
        return tf.distribute.ParameterServerStrategy(resolver)
    except TimeoutError as error:
        raise command.UserError(f"--connect_timeout: {error}") from error


def _what_is_lost(error: tf.errors.UnavailableError) -> str:
    task = re.search(r"remote target (/job:\w+/replica:\d+/task:\d+)", error.message)
    return (
        f"{task[1] if task else 'The cluster'} does not answer any more: start it again; with "
        "--checkpoint_dir training then goes on from the last epoch."
    )


def _compiled_model(settings: Settings, data: datasets.ImageDataset) -> tf_keras.Model:
    model = models.build(settings.model, data.image_shape, data.classes)
    model.compile(
        tf_keras.optimizers.Adam(settings.learning_rate),
        tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def _fit(
    settings: Settings, data: datasets.ImageDataset, model: tf_keras.Model, workers: int
) -> Output:
    replan = None
    if settings.strategy != "stock":
        replan = tf_dynacomm.ReplanCallback(
            **settings.callback_kwargs, plan_dir=_in_checkpoint_dir(settings, "plans")
        )
    output = Output(settings, _steps_finished(model), workers, replan)
    # The order of the data is the same each time with one worker only: several take turns anyhow.
    seed = settings.seed if workers == 1 else None
    try:
        model.fit(
            tf_keras.utils.experimental.DatasetCreator(
                lambda context: data.train_batches(settings.batch_size, seed=seed)
            ),
            epochs=settings.epochs,
            steps_per_epoch=settings.steps_per_epoch,
            callbacks=[*_checkpoints(settings), *([replan] if replan else []), output],
            verbose=0,
        )
    finally:
        output.close()
    return output


def _checkpoints(settings: Settings) -> list[tf_keras.callbacks.Callback]:
    if settings.checkpoint_dir is None:
        return []
    return [
        tf_keras.callbacks.BackupAndRestore(_in_checkpoint_dir(settings, "backup")),
        tf_keras.callbacks.ModelCheckpoint(
            _in_checkpoint_dir(settings, "ckpt-{epoch}"), save_weights_only=True
        ),
    ]


def _in_checkpoint_dir(settings: Settings, name: str) -> str | None:
    return settings.checkpoint_dir and os.path.join(settings.checkpoint_dir, name)


def _steps_finished(model: tf_keras.Model) -> Callable[[], int]:
    strategy = model.distribute_strategy
    if isinstance(strategy, tf_dynacomm.DynaCommStrategy):
        return lambda: strategy.coordinator.steps_finished

    def iterations() -> int:
        try:
            return int(model.optimizer.iterations.numpy())
        except tf.errors.OpError:  # The training itself tells what is wrong with the cluster.
            return 0

    return iterations


def _test(
    settings: Settings, data: datasets.ImageDataset, model: tf_keras.Model
) -> tuple[float, float]:
    """Returns loss and accuracy over exactly the test data, which workers would take shares of."""
    local_model = _compiled_model(settings, data)
    local_model.set_weights(model.get_weights())
    return local_model.evaluate(
        data.test_images, data.test_labels, batch_size=_EVALUATION_BATCH_SIZE, verbose=0
    )
