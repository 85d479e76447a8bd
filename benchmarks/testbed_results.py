"""What the testbed has shown so far: keeps each experiment's numbers, and writes `RESULTS.md`.

    python -m benchmarks.testbed_results

writes it again from the numbers that are kept in `results/testbed_*.json`.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence

import numpy as np

from benchmarks import results
from tf_dynacomm.bench import contenders, plot, rows
from tf_dynacomm.tools import quantities

_INTRODUCTION = """\
Real TensorFlow clusters on one machine: one process for each task, gRPC, and links that are shaped
(see `tf_dynacomm/testbed`). Models named `emulated:ARCHITECTURE:SCALE:FORWARD_S:BACKWARD_S` have
the tensors of the architecture at a scale, and a worker that sleeps for as long as an accelerator
would compute. Within a cell all contenders take turns on one running cluster, with plans from the
same measured costs: ratios are worth more than seconds."""
_GRID_NOTE = """\
Ratios are medians over the rounds. *bound* is the model's best step of the paper's kind if
transmissions cost their bytes only; *duplex* what computation, the way down or the way up takes by
itself."""

_OVERHEADS_NOTE = """\
*pulls*, *pushes*: to find their segments. *waiting*: Δt and the push of layer 1, in which a worker
has nothing else to do. *traced*: by how much an epoch takes longer in which a trace is taken, read
and planned from."""


@dataclasses.dataclass(frozen=True)
class Moment:
    """The steps of an epoch, or of a turn.

    Attributes:
      run: Which training, with re-planning or without, say.
      epoch: The epoch, from 1.
      step_s: Seconds of a step, by worker: the median, or the mean of all (`steady`).
      pulls: Pull segments of the plans in force at its end, by worker.
      pushes: The same of pushes.
    """

    run: str
    epoch: int
    step_s: list[float]
    pulls: list[int]
    pushes: list[int]


@dataclasses.dataclass(frozen=True)
class Point:
    """How far a training is at the end of an epoch.

    Attributes:
      run: Which training.
      epoch: The epoch, from 1.
      accuracy: Share of the epoch's training data that was told right.
      elapsed_s: Seconds since the training began, tracing included.
    """

    run: str
    epoch: int
    accuracy: float
    elapsed_s: float


@dataclasses.dataclass(frozen=True)
class Overhead:
    """What planning costs a model's training.

    Attributes:
      model: Its specification.
      layers: Its number of layers.
      schedule_pulls_s: Seconds to find the segments of pulls.
      schedule_pushes_s: Seconds to find those of pushes.
      waiting_s: Seconds for which a worker waits for its last push: Δt and that of layer 1.
      epoch_s: Seconds of an epoch without a trace.
      traced_share: By which share of it an epoch takes longer in which a plan is made from a trace.
    """

    model: str
    layers: int
    schedule_pulls_s: float
    schedule_pushes_s: float
    waiting_s: float
    epoch_s: float
    traced_share: float


def keep(name: str, kept: Sequence) -> None:
    """Keeps an experiment's rows or moments, and writes `RESULTS.md`."""
    path = _path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([dataclasses.asdict(one) for one in kept], indent=1) + "\n")
    write()


def keep_cells(name: str, new: Sequence[rows.Row]) -> None:
    """Keeps rows of cells in place of earlier ones of the same cells, and writes `RESULTS.md`."""
    kept = rows.read_json(_path(name)) if _path(name).exists() else []
    replaced = {_cell(row) for row in new}
    keep(name, sorted([*(row for row in kept if _cell(row) not in replaced), *new], key=_cell))


def _cell(row: rows.Row) -> tuple:
    return row.model, row.workers, row.latency_s, quantities.rate_bytes_per_s(row.rate)


def write() -> None:
    """Writes `RESULTS.md` from all that is kept, and a chart of each experiment with contenders."""
    tables = []
    for path in sorted(results.picture_path("any").parent.glob("testbed_*.json")):
        name = path.stem.removeprefix("testbed_")
        kept = json.loads(path.read_text())
        if kept and "contender" in kept[0]:
            cells = rows.read_json(path)
            tables.append(cells_table(name, cells))
            plot.write(path.with_suffix(".png"), cells)
        elif kept and "accuracy" in kept[0]:
            tables.append(points_table(name, [Point(**point) for point in kept]))
        elif kept and "traced_share" in kept[0]:
            tables.append(overheads_table(name, [Overhead(**overhead) for overhead in kept]))
        elif kept and "epoch" in kept[0]:
            tables.append(moments_table(name, [Moment(**moment) for moment in kept]))
    results.write("results", "Measured on the testbed", _INTRODUCTION, tables)


def cells_table(name: str, kept: Sequence[rows.Row]) -> results.Table:
    """One line for each cell: the ratios to stock, and what became of the bounds."""
    shown = [c for c in contenders.NAMES if any(row.contender == c for row in kept)]
    header = ("model", "rate", "latency", "workers", "stock [s]", *shown[1:], "best other")
    header += ("dynacomm/best", "/bound", "/duplex", "/predicted", "links")
    lines = [_line(list(cell), shown) for _, cell in itertools.groupby(kept, _cell)]
    return results.Table(f"{name}: step against stock's", header, tuple(lines), _GRID_NOTE, ".3f")


def _line(cell: Sequence[rows.Row], shown: Sequence[str]) -> tuple[results.Cell, ...]:
    by_name = {row.contender: row for row in cell}
    ours, any_row = by_name.get("dynacomm"), cell[0]
    others = {name: row.median_step_s for name, row in by_name.items() if name != "dynacomm"}
    best = min(others, key=others.get, default=None)
    stock = by_name.get(contenders.STOCK)
    quotients: tuple[results.Cell, ...] = (None,) * 4
    if ours is not None:
        against = (others.get(best), ours.bound_s, ours.duplex_limit_s, ours.predicted_s)
        quotients = tuple(other and ours.median_step_s / other for other in against)
    return (
        any_row.model,
        any_row.rate,
        f"{any_row.latency_s * 1e3:g} ms",
        f"{any_row.workers}",
        stock and stock.median_step_s,
        *(by_name[name].ratio_to_stock if name in by_name else None for name in shown[1:]),
        best,
        *quotients,
        any_row.links,
    )


def moments_table(name: str, kept: Sequence[Moment]) -> results.Table:
    """One line for each epoch of each run, beside the same epoch of the first run."""
    workers = range(len(kept[0].step_s))
    first = kept[0].run
    steps_s = {moment.epoch: moment.step_s for moment in kept if moment.run == first}
    header = ("run", "epoch", *(f"worker {w} [s]" for w in workers))
    header += (*(f"/{first}" for _ in workers), "pulls", "pushes")
    lines = tuple(
        (
            moment.run,
            f"{moment.epoch}",
            *moment.step_s,
            *np.divide(moment.step_s, steps_s[moment.epoch]).tolist(),
            ", ".join(map(str, moment.pulls)),
            ", ".join(map(str, moment.pushes)),
        )
        for moment in kept
    )
    return results.Table(f"{name}: step of each epoch", header, lines, form=".3f")


def points_table(name: str, kept: Sequence[Point]) -> results.Table:
    """One line for each epoch: the accuracy of each training, and when it had it."""
    runs = list(dict.fromkeys(point.run for point in kept))
    header = ("epoch", *runs, *(f"{run} [s]" for run in runs))
    by_epoch = itertools.groupby(sorted(kept, key=lambda p: p.epoch), lambda p: p.epoch)
    lines = []
    for epoch, points in by_epoch:
        of = {point.run: point for point in points}
        times_s = (of[run].elapsed_s for run in runs)
        lines.append((f"{epoch}", *(of[run].accuracy for run in runs), *times_s))
    return results.Table(f"{name}: of the training data", header, tuple(lines), form=".4f")


def overheads_table(name: str, kept: Sequence[Overhead]) -> results.Table:
    """One line for each model."""
    header = ("model", "layers", "pulls [ms]", "pushes [ms]", "waiting [ms]")
    header += ("epoch [s]", "traced [%]")
    lines = tuple(
        (
            one.model,
            f"{one.layers}",
            one.schedule_pulls_s * 1e3,
            one.schedule_pushes_s * 1e3,
            one.waiting_s * 1e3,
            one.epoch_s,
            one.traced_share * 100,
        )
        for one in kept
    )
    return results.Table(f"{name}: of scheduling and of profiling", header, lines, _OVERHEADS_NOTE)


def _path(name: str):
    return results.picture_path(f"testbed_{name}").with_suffix(".json")


if __name__ == "__main__":
    write()
