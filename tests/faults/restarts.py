"""Trainings by `dynacomm-train` whose chief or PS is killed, and which are started again."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from tests.faults import runs
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.testbed import local_cluster

LOST = ("chief", "ps")
STEPS_PER_EPOCH = 40
_EPOCHS_BEFORE = 3


@dataclasses.dataclass(frozen=True)
class Restart:
    """What became of a training.

    Attributes:
      error: How the loss was told; `None` if the chief itself was killed.
      ended_s: Seconds until the chief had ended.
      last_epoch: The last epoch that was finished before.
      first_epoch: The epoch that it went on with.
      back_s: Seconds from the new start to the end of that epoch.
      plan: The plan that was kept for worker 0 when it was started again.
      epochs: The epochs' reports since.
    """

    error: str | None
    ended_s: float
    last_epoch: int
    first_epoch: int
    back_s: float
    plan: plan_lib.Plan | None
    epochs: list[dict]


def lose(
    lost: str, cluster: local_cluster.LocalCluster, folder: pathlib.Path, strategy: str
) -> Restart:
    """Kills the chief, or the PS, which it starts again; then starts the chief again.

    Workers, and the PS if it was not it, go on running.
    """
    chief = _start(cluster, folder, strategy, 1000)
    runs.wait_until(lambda: _last_epoch(folder) >= _EPOCHS_BEFORE or chief.poll() is not None)
    killed_s = time.monotonic()
    if lost == "chief":
        chief.kill()
    else:
        cluster.kill("ps", 0)
    _, errors = chief.communicate(timeout=runs.DEADLINE_S)
    ended_s = time.monotonic() - killed_s
    if lost == "ps":
        cluster.restart("ps", 0)
    return _go_on(cluster, folder, strategy, _error(errors), ended_s)


def _go_on(cluster, folder, strategy, error, ended_s) -> Restart:
    last, plan = _last_epoch(folder), folder / "plans" / "plan-worker0.json"
    kept = plan_lib.Plan.load(plan) if plan.exists() else None
    begun_s = time.monotonic()
    chief = _start(cluster, folder, strategy, last + 2)
    runs.wait_until(lambda: _last_epoch(folder) > last or chief.poll() is not None)
    back_s = time.monotonic() - begun_s
    _, errors = chief.communicate(timeout=runs.DEADLINE_S)
    if chief.returncode != 0:
        raise RuntimeError(f"The training did not go on: {errors[-2000:]}")
    epochs = json.loads((folder / "summary.json").read_text())["epochs"]
    return Restart(error, ended_s, last, epochs[0]["epoch"], back_s, kept, epochs)


def _start(cluster, folder, strategy, epochs) -> subprocess.Popen:
    task = {"cluster": cluster.cluster_spec, "task": {"type": "chief", "index": 0}}
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tf_dynacomm.tools.train", f"--strategy={strategy}"),
            *(f"--epochs={epochs}", f"--steps_per_epoch={STEPS_PER_EPOCH}", "--batch_size=8"),
            *(f"--checkpoint_dir={folder}", f"--summary={folder}/summary.json"),
        ],
        env={**os.environ, "TF_CONFIG": json.dumps(task)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _last_epoch(folder: pathlib.Path) -> int:
    """The last epoch that has its checkpoint and its backup."""
    epochs = [int(path.stem.partition("-")[2]) for path in folder.glob("ckpt-*.index")]
    return max(epochs, default=0)


def _error(errors: str) -> str | None:
    """What `dynacomm-train` tells of a task that is lost."""
    told = re.search("train.py: .*(/job:\\S+ does not answer any more)", errors)
    return told and told[1]
