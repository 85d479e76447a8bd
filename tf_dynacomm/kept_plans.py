"""The plans and costs that a training keeps, so that it need not learn them anew when it goes on.

In a folder, beside the checkpoints say: `plan-worker<index>.json` and `costs-worker<index>.json`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from absl import logging

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib


def save(
    folder: pathlib.Path,
    plans: Mapping[int, plan_lib.Plan | None],
    costs: Mapping[int, costs_lib.LayerCosts],
) -> None:
    """Keeps the plan of each worker, and the costs of those that were measured.

    A worker that runs as stock has no plan: it is to begin anew. What cannot be written is told in
    the log.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for worker, plan in plans.items():
            path = _plan_path(folder, worker)
            path.unlink(missing_ok=True) if plan is None else plan.save(path)
        for worker, measured in costs.items():
            measured.save(folder / f"costs-worker{worker}.json")
    except OSError as e:
        logging.warning("Plans were not kept in %s: %s", folder, e)


def load(folder: pathlib.Path, workers: int) -> dict[int, plan_lib.Plan]:
    """Returns the plans that were kept, by worker; what cannot be read is told in the log.

    Args:
      folder: The folder, which need not exist.
      workers: Number of workers.
    """
    plans = {}
    for worker in range(workers):
        try:
            plans[worker] = plan_lib.Plan.load(_plan_path(folder, worker))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as e:
            logging.warning("A plan that was kept is not used: %s", e)
    return plans


def _plan_path(folder: pathlib.Path, worker: int) -> pathlib.Path:
    return folder / f"plan-worker{worker}.json"
