"""`Row`: what one contender took in one cell of a benchmark, and the files that rows go into."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
from collections.abc import Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import files, schedulers, timeline
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.bench import contenders


@dataclasses.dataclass(frozen=True)
class Row:
    """What one contender took in one cell.

    Attributes:
      model: The model's specification.
      rate: The links' rate, as it was given.
      latency_s: Added latency of the links, each way.
      workers: Number of workers.
      contender: The contender.
      median_step_s: Median over the rounds of the median step of each.
      ratio_to_stock: Median over the rounds of the ratio to stock in the same round.
      ratio_low: Least ratio of a round.
      ratio_high: Largest ratio of a round.
      bound_s: Seconds of the best step of the paper's kind on a link without any overhead.
      duplex_limit_s: Seconds that computation, the way down or the way up take by themselves: no
        schedule at all is faster.
      predicted_s: Seconds that the timeline had said; `None` for stock.
      pulls: Pull segments; 0 for stock.
      pushes: Push segments; 0 for stock.
      computation_s: Seconds of the step in which nothing is transferred.
      overlap_s: Seconds in which the worker computes while there is a transfer.
      communication_s: Seconds in which the worker waits.
      links: How the links were made: `"namespaces"` or `"relay"`.
    """

    model: str
    rate: str
    latency_s: float
    workers: int
    contender: str
    median_step_s: float
    ratio_to_stock: float | None
    ratio_low: float | None
    ratio_high: float | None
    bound_s: float
    duplex_limit_s: float
    predicted_s: float | None
    pulls: int
    pushes: int
    computation_s: float
    overlap_s: float
    communication_s: float
    links: str


def ideal_costs(costs: costs_lib.LayerCosts, pull_bytes, push_bytes, rate_bytes_per_s: float):
    """The same computation on a link of the given rate that has no overhead."""
    return costs_lib.LayerCosts(
        np.divide(pull_bytes, rate_bytes_per_s),
        costs.forward_s,
        costs.backward_s,
        np.divide(push_bytes, rate_bytes_per_s),
        overhead_s=0.0,
        names=costs.names,
    )


def bound_s(ideal: costs_lib.LayerCosts) -> float:
    """Seconds of the best step of the paper's kind; `ideal` as `ideal_costs` gives it."""
    return timeline.simulate(ideal, schedulers.get("dynacomm")(ideal)).iteration_s


def duplex_limit_s(ideal: costs_lib.LayerCosts) -> float:
    """The longest of computation, way down and way up."""
    computation_s = float(ideal.forward_s.sum() + ideal.backward_s.sum())
    return max(computation_s, float(ideal.pull_s.sum()), float(ideal.push_s.sum()))


def portions(
    step_s: float,
    ideal: costs_lib.LayerCosts,
    costs: costs_lib.LayerCosts,
    plan: plan_lib.Plan | None,
) -> timeline.Portions:
    """Divides a measured step as the paper does.

    The worker computes for a known time, and transfers take a known time, overheads included; what
    both are longer together than the step is their overlap.
    """
    computation_s = float(ideal.forward_s.sum() + ideal.backward_s.sum())
    transfer_s = float(ideal.pull_s.sum() + ideal.push_s.sum())
    if plan is not None:
        transfer_s += len(plan.pull) * costs.overhead_pull_s
        transfer_s += len(plan.push) * costs.overhead_push_s
    overlap_s = min(max(computation_s + transfer_s - step_s, 0.0), computation_s)
    return timeline.Portions(computation_s - overlap_s, overlap_s, max(step_s - computation_s, 0.0))


def ratios(times_s: dict[str, Sequence[float]], contender: str) -> np.ndarray | None:
    """A contender's ratio to stock in each round; `None` if stock took no part."""
    if contenders.STOCK not in times_s:
        return None
    return np.divide(times_s[contender], times_s[contenders.STOCK])


_COLUMNS = {
    "model": "{0.model}",
    "rate": "{0.rate}",
    "latency": "{ms:.0f} ms",
    "workers": "{0.workers}",
    "contender": "{0.contender}",
    "segments": "{0.pulls}+{0.pushes}",
    "step": "{0.median_step_s:.3f} s",
    "to stock": "{ratio}",
    "predicted": "{predicted}",
    "over bound": "{over:+.1%}",
    "over duplex": "{duplex:+.1%}",
}


def table(rows: Sequence[Row]) -> str:
    """Lays rows out as text, a line for each."""
    cells = [tuple(_COLUMNS), *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _cells(row: Row) -> tuple[str, ...]:
    derived = {
        "ms": row.latency_s * 1e3,
        "ratio": _ratio(row),
        "predicted": "" if row.predicted_s is None else f"{row.predicted_s:.3f} s",
        "over": row.median_step_s / row.bound_s - 1,
        "duplex": row.median_step_s / row.duplex_limit_s - 1,
    }
    return tuple(form.format(row, **derived) for form in _COLUMNS.values())


def _ratio(row: Row) -> str:
    if row.ratio_to_stock is None:
        return ""
    return f"{row.ratio_to_stock:.3f} ({row.ratio_low:.3f}-{row.ratio_high:.3f})"


def write_json(path: str | os.PathLike, rows: Sequence[Row]) -> None:
    """Writes rows as a JSON list.

    Raises:
      OSError: The file cannot be written.
    """
    content = [dataclasses.asdict(row) for row in rows]
    files.write_text(path, json.dumps(content, indent=1, allow_nan=False))


def read_json(path: str | os.PathLike) -> list[Row]:
    """Reads what `write_json` wrote.

    Raises:
      OSError: The file cannot be read.
      ValueError: It holds no rows.
    """
    with open(path, encoding="utf-8") as file:
        try:
            return [Row(**row) for row in json.load(file)]
        except TypeError as e:
            raise ValueError(f"{path}: no rows of a benchmark: {e}") from e


def write_csv(path: str | os.PathLike, rows: Sequence[Row]) -> None:
    """Writes rows as CSV with a header.

    Raises:
      OSError: The file cannot be written.
    """
    with files.whole(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(Row)])
        writer.writeheader()
        writer.writerows(dataclasses.asdict(row) for row in rows)
