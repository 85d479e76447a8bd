"""`dynacomm-train`: trains an image classifier, as any task of a parameter server cluster.

    dynacomm-train --cluster=local --workers=2 --ps=1

starts worker and parameter server processes on this machine, trains on them and ends them. In a
cluster of several machines, run the same command on each, with the environment variable `TF_CONFIG`
in the form that TensorFlow's own tutorials use.
"""

from __future__ import annotations

import gc
import math
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

from absl import flags

from tf_dynacomm import cluster_config, datasets, models
from tf_dynacomm import flags as strategy_flags
from tf_dynacomm.testbed import local_cluster
from tf_dynacomm.tools import command, environment, report, server

_MAX_COUNT = 2**31 - 1

_CLUSTER = flags.DEFINE_enum(
    "cluster",
    None,
    ["local", "tf_config"],
    "local: processes on this machine; tf_config: what TF_CONFIG says. Default: tf_config if "
    "TF_CONFIG is set, else local.",
)
_WORKERS = flags.DEFINE_integer("workers", 2, "Workers of a local cluster.", lower_bound=1)
_PS = flags.DEFINE_integer("ps", 1, "Parameter servers of a local cluster.", lower_bound=1)
_MODEL = flags.DEFINE_enum("model", "small_cnn", models.names(), "What to train.")
_DATASET = flags.DEFINE_enum("dataset", "digits", datasets.names(), "What to train it on.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of the CIFAR-10 binary batches, on each machine."
)
_SYNTHETIC_SHAPE = flags.DEFINE_list(
    "synthetic_shape", ["32", "32", "3"], "Height, width and channels of synthetic images."
)
_SYNTHETIC_CLASSES = flags.DEFINE_integer(
    "synthetic_classes", 10, "Classes of synthetic images.", lower_bound=1
)
_STRATEGY = flags.DEFINE_enum(
    "strategy",
    "dynacomm",
    ["dynacomm", "stock"],
    "dynacomm: DynaCommStrategy; stock: TensorFlow's own ParameterServerStrategy.",
)
_EPOCHS = flags.DEFINE_integer("epochs", 5, "Number of epochs.", lower_bound=1)
_STEPS_PER_EPOCH = flags.DEFINE_integer(
    "steps_per_epoch",
    None,
    "Steps of an epoch, of all workers together. Default: once through the data.",
    lower_bound=1,
    upper_bound=_MAX_COUNT,
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 32, "Images in a step.", lower_bound=1, upper_bound=_MAX_COUNT
)
_LEARNING_RATE = flags.DEFINE_float(
    "learning_rate", 0.001, "Learning rate of the Adam optimizer.", lower_bound=0.0
)
_SEED = flags.DEFINE_integer(
    "seed",
    1,
    "Seed of the weights and, with one worker, of the order of the data.",
    lower_bound=1,
    upper_bound=2**32 - 1,
)
_CHECKPOINT_DIR = flags.DEFINE_string(
    "checkpoint_dir",
    None,
    "Folder for a checkpoint per epoch; an interrupted training goes on from there.",
)
_SUMMARY = flags.DEFINE_string("summary", None, "File for the results, as JSON.")
_DYNACOMM = strategy_flags.define()

flags.register_validator(
    _SYNTHETIC_SHAPE,
    lambda shape: (
        len(shape) == 3 and all(n.isdecimal() and len(n) < 10 and int(n) > 0 for n in shape)
    ),
    "must be three positive numbers, such as 32,32,3",
)
flags.register_validator(_LEARNING_RATE, math.isfinite, "must be finite")


@flags.multi_flags_validator(
    ["strategy", "plan"], "--plan is of no use with --strategy=stock, which follows none"
)
def _plan_is_followed(values: Mapping[str, str | None]) -> bool:
    return values["strategy"] != "stock" or values["plan"] is None


def load_data() -> datasets.ImageDataset:
    """Loads the data set that the flags name.

    Raises:
      UserError: A file is missing or damaged.
    """
    with command.user_errors("--data_dir"):
        return datasets.load(
            _DATASET.value,
            _DATA_DIR.value,
            synthetic_shape=tuple(map(int, _SYNTHETIC_SHAPE.value)),
            synthetic_classes=_SYNTHETIC_CLASSES.value,
        )


def cluster_from_environment() -> cluster_config.ClusterConfig | None:
    """Returns the cluster of `TF_CONFIG`, or `None` if a local one is wanted.

    Raises:
      UserError: `TF_CONFIG` is wrong, or its port of this process is taken.
    """
    text = os.environ.get("TF_CONFIG")
    if _CLUSTER.value == "local" or (_CLUSTER.value is None and text is None):
        return None
    try:
        config = cluster_config.ClusterConfig.from_tf_config(text or "")
        if config.address is not None and config.job != "evaluator":
            cluster_config.check_port_is_free(config.address)
    except ValueError as error:
        raise command.UserError(str(error)) from error
    except OSError as error:
        raise command.UserError(f"TF_CONFIG: {error.strerror}") from error
    return config


def check_outputs() -> None:
    """Checks that results can be written where the flags say.

    Raises:
      UserError: They cannot.
    """
    command.make_folder("--logdir", _DYNACOMM.logdir)
    command.make_folder("--checkpoint_dir", _CHECKPOINT_DIR.value)
    if _SUMMARY.value is not None:
        command.make_folder("--summary", pathlib.Path(_SUMMARY.value).parent)
        if os.path.isdir(_SUMMARY.value):
            raise command.UserError(f"--summary: {_SUMMARY.value} is a folder: name a file.")


def main(argv: Sequence[str]) -> None:
    """Does what this process's role in the cluster is."""
    del argv
    config = cluster_from_environment()
    if config is not None and config.job in ("worker", "ps"):
        print(f"{config.job} {config.task} serves at {config.address}", file=sys.stderr, flush=True)
        server.serve(config)
    if config is not None and config.job == "evaluator" and _CHECKPOINT_DIR.value is None:
        raise command.UserError("--checkpoint_dir must name the folder of the chief's checkpoints.")
    data = load_data()
    with command.user_errors("--plan", "name a plan file that a training wrote to its --logdir"):
        strategy_kwargs = _DYNACOMM.strategy_kwargs()
    check_outputs()
    if _DYNACOMM.logdir and _STRATEGY.value == "stock":
        told = "--logdir stays empty with --strategy=stock; --scheduler=stock keeps a trace in it."
        print(told, file=sys.stderr)
    if config is None:
        with local_cluster.LocalCluster(_WORKERS.value, _PS.value) as cluster:
            chief = cluster_config.ClusterConfig(cluster.cluster_spec, "chief", 0)
            _train(chief, data, strategy_kwargs)
    else:
        _train(config, data, strategy_kwargs)


def _train(config, data, strategy_kwargs) -> None:
    environment.load_tensorflow()
    from tf_dynacomm.tools import training

    settings = training.Settings(
        model=_MODEL.value,
        strategy=_STRATEGY.value,
        strategy_kwargs=strategy_kwargs,
        callback_kwargs=_DYNACOMM.callback_kwargs(),
        epochs=_EPOCHS.value,
        steps_per_epoch=_STEPS_PER_EPOCH.value or max(1, data.train_size // _BATCH_SIZE.value),
        batch_size=_BATCH_SIZE.value,
        learning_rate=_LEARNING_RATE.value,
        checkpoint_dir=_CHECKPOINT_DIR.value,
        seed=_SEED.value,
    )
    if config.job == "evaluator":
        training.evaluate_checkpoints(settings, data)
        return
    summary = training.train(settings, config, data)
    gc.collect()  # Functions on the workers are to go before the workers do.
    if _SUMMARY.value is not None:
        command.make_folder("--summary", pathlib.Path(_SUMMARY.value).parent)
        with command.user_errors("--summary"):
            report.write_summary(_SUMMARY.value, summary)


def run() -> None:
    """Runs the command."""
    command.run(main)


if __name__ == "__main__":
    run()
