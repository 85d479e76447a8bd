"""The plans and costs that a training keeps, so that it need not learn them anew when it goes on.

In a folder, beside the checkpoints say: `plan-worker<index>.json` and `costs-worker<index>.json`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import TypeVar

from absl import logging

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm import schedulers

_Kept = TypeVar("_Kept")


def save(
    folder: pathlib.Path,
    plans: Mapping[int, plan_lib.Plan | None],
    costs: Mapping[int, costs_lib.LayerCosts],
) -> None:
    """Keeps the plan of each worker, and the costs of those that were measured.

    A worker that runs as stock has no plan. What cannot be written is told in the log.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for worker, plan in plans.items():
            path = _plan_path(folder, worker)
            path.unlink(missing_ok=True) if plan is None else plan.save(path)
        for worker, measured in costs.items():
            measured.save(_costs_path(folder, worker))
    except OSError as e:
        logging.warning("Plans were not kept in %s: %s", folder, e)


def load(folder: pathlib.Path, workers: int, scheduler: str) -> dict[int, plan_lib.Plan]:
    """Returns the plans to begin with, by worker; what cannot be read is told in the log.

    A worker that has no plan, or one that another scheduler made, begins with what the scheduler
    makes of the costs that were kept.

    Args:
      folder: The folder, which need not exist.
      workers: Number of workers.
      scheduler: Name of the scheduler that plans.
    """
    plans = {}
    for worker in range(workers):
        plan = _read(plan_lib.Plan.load, _plan_path(folder, worker))
        if plan is None or plan.scheduler in set(schedulers.names()) - {scheduler}:
            costs = _read(costs_lib.LayerCosts.load, _costs_path(folder, worker))
            plan = schedulers.get(scheduler)(costs) if costs else plan
        if plan is not None:
            plans[worker] = plan
    return plans


def _read(load: Callable[[pathlib.Path], _Kept], path: pathlib.Path) -> _Kept | None:
    try:
        return load(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as e:
        logging.warning("What was kept is not used: %s", e)
        return None


def _plan_path(folder: pathlib.Path, worker: int) -> pathlib.Path:
    return folder / f"plan-worker{worker}.json"


def _costs_path(folder: pathlib.Path, worker: int) -> pathlib.Path:
    return folder / f"costs-worker{worker}.json"
