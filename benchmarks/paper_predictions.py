"""What the fitted model of the paper's testbed predicts where nothing was fitted.

Reductions of an iteration's time at other batch sizes and at other rates of the link, and the
speed-up of several workers that share the links of the PS tasks. How much they get in each other's
way depends on how far they are out of step, so that there are two speed-ups: *least*, where all
transfer at the same time and each has an equal part of the links, and *most*, where they take turns
and nothing but the links' bytes per second limits them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from tf_dynacomm import LayerCosts, schedulers, timeline

BATCH_SIZES = (8, 16, 24, 32, 48, 64)
GIGABITS_PER_S = (1.0, 2.5, 5.0, 10.0)
WORKERS = tuple(range(1, 9))
SERVERS = (1, 2, 4, 8)
SCHEDULERS = ("layer_by_layer", "ibatch", "dynacomm")
_BYTES_PER_GIGABIT = 1e9 / 8
_LINK_GIGABITS_PER_S = 10.0


class Testbed(Protocol):
    """What the paper's testbed is taken to be, for one model."""

    model: str

    def costs(self, batch_size: int = ..., rate_bytes_per_s: float = ...) -> LayerCosts:
        """Costs of a step."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Predicted numbers.

    Attributes:
      title: What they are.
      key: Name of the first column.
      unit: Unit of the numbers, or `""`.
      rows: For each value of the first column, the numbers by column.
    """

    title: str
    key: str
    unit: str
    rows: Mapping[float, Mapping[str, float]]

    def markdown(self) -> str:
        """The table in Markdown, under its title."""
        columns = next(iter(self.rows.values()))
        header = [self.key, *columns]
        lines = [f"**{self.title}**{f' [{self.unit}]' if self.unit else ''}", ""]
        lines += [_line(header), _line(["---:"] * len(header))]
        for value, numbers in self.rows.items():
            lines.append(_line([f"{value:g}", *(f"{number:.1f}" for number in numbers.values())]))
        return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def tables(testbed: Testbed) -> tuple[Table, ...]:
    """All predictions for a model."""
    reduction = f"{testbed.model}: reduction of an iteration against sequential"
    by_size = {size: reductions(testbed.costs(batch_size=size)) for size in BATCH_SIZES}
    by_rate = {
        rate: reductions(testbed.costs(rate_bytes_per_s=rate * _BYTES_PER_GIGABIT))
        for rate in GIGABITS_PER_S
    }
    by_workers = {count: speedups(testbed, count, servers=1) for count in WORKERS}
    by_servers = {count: speedups(testbed, WORKERS[-1], servers=count) for count in SERVERS}
    return (
        Table(f"{reduction}, by batch size (10 Gbit/s)", "batch size", "%", by_size),
        Table(f"{reduction}, by rate of the link (batch size 32)", "Gbit/s", "%", by_rate),
        Table(f"{testbed.model}: speed-up on the link of one PS task", "workers", "", by_workers),
        Table(f"{testbed.model}: speed-up of {WORKERS[-1]} workers", "PS tasks", "", by_servers),
    )


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
    return timeline.simulate(costs, schedulers.get(scheduler)(costs)).iteration_s
