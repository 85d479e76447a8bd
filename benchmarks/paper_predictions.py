"""What the fitted model of the paper's testbed predicts where nothing was fitted.

Reductions of an iteration's time at other batch sizes and at other rates of the link, and the
speed-up of several workers that share the links of the PS tasks. How much they get in each other's
way depends on how far they are out of step, so that there are two speed-ups: *least*, where all
transfer at the same time and each has an equal part of the links, and *most*, where they take turns
and nothing but the links' bytes per second limits them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from benchmarks import results
from tf_dynacomm import LayerCosts, schedulers
from tf_dynacomm.schedulers import makespan

BATCH_SIZES = (8, 16, 24, 32, 48, 64)
GIGABITS_PER_S = (1.0, 2.5, 5.0, 10.0)
WORKERS = tuple(range(1, 9))
SERVERS = (1, 2, 4, 8)
SCHEDULERS = ("layer_by_layer", "ibatch", "dynacomm")
PAPER_SPEEDUPS = """\
The paper has 7.2 (DynaComm), 6.2 (iBatch) and 5.4 (layer by layer). How many links served its
workers is not at hand."""
_BYTES_PER_GIGABIT = 1e9 / 8
_LINK_GIGABITS_PER_S = 10.0


class Testbed(Protocol):
    """What the paper's testbed is taken to be, for one model."""

    model: str

    def costs(self, batch_size: int = ..., rate_bytes_per_s: float = ...) -> LayerCosts:
        """Costs of a step."""


def by_batch_size(testbed: Testbed) -> dict[float, dict[str, float]]:
    """Reductions by batch size, at 10 Gbit/s."""
    return {size: reductions(testbed.costs(batch_size=size)) for size in BATCH_SIZES}


def by_rate(testbed: Testbed) -> dict[float, dict[str, float]]:
    """Reductions by the link's Gbit/s, at batch size 32."""
    return {
        rate: reductions(testbed.costs(rate_bytes_per_s=rate * _BYTES_PER_GIGABIT))
        for rate in GIGABITS_PER_S
    }


def tables(testbed: Testbed) -> tuple[results.Table, ...]:
    """All predictions for a model."""
    what = f"Predicted for {testbed.model}:"
    reduction = f"{what} reduction of the iteration against the sequential schedule [%]"
    by_workers = {count: speedups(testbed, count, servers=1) for count in WORKERS}
    by_servers = {count: speedups(testbed, WORKERS[-1], servers=count) for count in SERVERS}
    return (
        _table(f"{reduction}, by batch size", "batch size", by_batch_size(testbed)),
        _table(f"{reduction}, by rate of the link", "Gbit/s", by_rate(testbed)),
        _table(f"{what} speed-up on the link of one PS task", "workers", by_workers),
        _table(
            f"{what} speed-up of {WORKERS[-1]} workers, by number of PS tasks",
            "PS tasks",
            by_servers,
            PAPER_SPEEDUPS,
        ),
    )


def _table(
    title: str, key: str, rows: Mapping[float, Mapping[str, float]], note: str = ""
) -> results.Table:
    header = (key, *next(iter(rows.values())))
    cells = tuple((f"{value:g}", *numbers.values()) for value, numbers in rows.items())
    return results.Table(title, header, cells, note, form=".1f")


def reductions(costs: LayerCosts) -> dict[str, float]:
    """Reductions of an iteration against the sequential schedule, in percent, by scheduler."""
    sequential_s = _iteration_s(costs, "sequential")
    return {name: 100 * (1 - _iteration_s(costs, name) / sequential_s) for name in SCHEDULERS}


def speedups(testbed: Testbed, workers: int, servers: int) -> dict[str, float]:
    """Steps a second of several workers, relative to one worker's: by scheduler, least and most.

    Args:
      testbed: The testbed.
      workers: Number of workers.
      servers: Number of PS tasks. Each has a link as fast as a worker's, and an equal part of the
        parameters.
    """
    rate = _LINK_GIGABITS_PER_S * _BYTES_PER_GIGABIT
    alone = testbed.costs(rate_bytes_per_s=rate)
    shared = testbed.costs(rate_bytes_per_s=rate * min(1, servers / workers))
    wire_s = max(alone.pull_s.sum(), alone.push_s.sum()) / servers
    found = {}
    for name in SCHEDULERS:
        alone_s = _iteration_s(alone, name)
        found[f"{name} least"] = workers * alone_s / _iteration_s(shared, name)
        found[f"{name} most"] = min(workers, alone_s / wire_s)
    return found


def _iteration_s(costs: LayerCosts, scheduler: str) -> float:
    plan = schedulers.get(scheduler)(costs)
    push_ends = [last for _, last in plan.push[::-1]]
    forward_s = makespan.forward_s(costs, [last for _, last in plan.pull])
    return forward_s + makespan.backward_s(costs, push_ends)
