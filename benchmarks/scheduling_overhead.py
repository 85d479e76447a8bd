"""Measures how long schedulers take, against the number of layers (the paper's Fig. 12).

    python -m benchmarks.scheduling_overhead

Costs are random (exponential, the overhead a tenth of a layer's mean). Each time is the median CPU
time of several runs; slopes are those of a straight line through the logarithms. Writes
`SCHEDULING_OVERHEAD.md`, and `results/scheduling_overhead.json` and `.png`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from benchmarks import results
from tf_dynacomm import LayerCosts, schedulers
from tf_dynacomm.schedulers import dynacomm, dynacomm_dp, exhaustive, ibatch

_PAPER_LAYERS = (10, 20, 40, 80, 160, 320)
_DEEP_LAYERS = (*_PAPER_LAYERS, 640, 1250, 2500, 5000, 10_000)
_EXHAUSTIVE_LAYERS = (10, 12, 14, exhaustive.MAX_LAYERS)
_RUNS = 5
_OVERHEAD = 0.1
_INTRODUCTION = f"""\
The paper's Fig. 12: schedulers against the number of layers L, on random costs (exponential of mean
1, Δt {_OVERHEAD}). Slopes are exponents of growth, from a straight line through the logarithms;
those of the fast schedulers from L = 320 upwards, of the others from 40."""

Search = Callable[[LayerCosts], object]


@dataclasses.dataclass(frozen=True)
class Case:
    """What is timed.

    Attributes:
      name: The scheduler, and the direction if it does both apart.
      search: What it does, given costs.
      layers: Numbers of layers.
    """

    name: str
    search: Search
    layers: tuple[int, ...]

    def times_s(self) -> list[float]:
        """Median seconds for each number of layers."""
        return [_median_s(self.search, count) for count in self.layers]


def cases() -> Iterator[Case]:
    """All schedulers; those that search do so forward and backward apart."""
    for name, best_ends, layers in (
        ("dynacomm", dynacomm.best_ends, _DEEP_LAYERS),
        ("dynacomm_dp", dynacomm_dp.best_ends, _PAPER_LAYERS),
        ("exhaustive", exhaustive.best_ends, _EXHAUSTIVE_LAYERS),
    ):
        yield Case(f"{name} forward", functools.partial(_forward, best_ends), layers)
        yield Case(f"{name} backward", functools.partial(_backward, best_ends), layers)
    yield Case("ibatch forward", ibatch.pull_ends, _PAPER_LAYERS)
    yield Case("ibatch backward", ibatch.push_ends, _PAPER_LAYERS)
    for name in ("bucketed", "layer_by_layer", "sequential"):
        yield Case(f"{name} both", schedulers.get(name), _DEEP_LAYERS)


def _forward(best_ends: Callable, costs: LayerCosts) -> list[int]:
    return best_ends(costs.pull_s, costs.forward_s, costs.overhead_pull_s)


def _backward(best_ends: Callable, costs: LayerCosts) -> list[int]:
    return best_ends(costs.push_s, costs.backward_s, costs.overhead_push_s)


def _median_s(search: Search, num_layers: int) -> float:
    times_s = []
    for run in range(_RUNS):
        vectors = np.random.default_rng(run).exponential(size=(4, num_layers))
        costs = LayerCosts(*vectors, overhead_s=_OVERHEAD)
        start_s = time.thread_time()
        search(costs)
        times_s.append(time.thread_time() - start_s)
    return statistics.median(times_s)


def slope(layers: Sequence[int], times_s: Sequence[float]) -> float:
    """The exponent with which time grows."""
    return float(np.polyfit(np.log(layers), np.log(times_s), 1)[0])


def table(times_s: Mapping[Case, Sequence[float]]) -> results.Table:
    """Milliseconds by number of layers, with the exponents of their growth."""
    columns = sorted({count for case in times_s for count in case.layers})
    rows = []
    for case, of_case_s in times_s.items():
        found = dict(zip(case.layers, of_case_s, strict=True))
        cells = (found[count] * 1e3 if count in found else None for count in columns)
        rows.append((case.name, *cells, _slope_text(case, of_case_s)))
    header = ("scheduler", *(f"L={count:,}" for count in columns), "slope")
    title = f"Time to schedule [ms], median CPU time of {_RUNS} runs"
    return results.Table(title, header, tuple(rows), _speedups(times_s, 320), form=".3f")


def _slope_text(case: Case, times_s: Sequence[float]) -> str:
    if case.layers == _EXHAUSTIVE_LAYERS:
        return "exponential"
    first = 320 if case.layers == _DEEP_LAYERS else 40
    start = case.layers.index(first)
    return f"{slope(case.layers[start:], times_s[start:]):.2f} from {first}"


def _speedups(times_s: Mapping[Case, Sequence[float]], num_layers: int) -> str:
    at = {
        case.name: of_case_s[case.layers.index(num_layers)]
        for case, of_case_s in times_s.items()
        if num_layers in case.layers
    }
    lines = []
    for direction in ("forward", "backward"):
        fast_s, slow_s = at[f"dynacomm {direction}"], at[f"dynacomm_dp {direction}"]
        lines.append(
            f"At L = {num_layers}, {direction}: dynacomm takes {fast_s * 1e3:.2f} ms and is "
            f"{slow_s / fast_s:,.0f} times faster than dynacomm_dp."
        )
    return "\n".join(lines)


def draw(path: str | os.PathLike, times_s: Mapping[Case, Sequence[float]]) -> None:
    """Draws times against layers, both axes logarithmic."""
    from matplotlib import figure

    picture = figure.Figure(figsize=(8, 5), layout="constrained")
    axes = picture.subplots()
    colors = {name: f"C{number}" for number, name in enumerate(schedulers.names())}
    for case, of_case_s in times_s.items():
        name, direction = case.name.split()
        style = "--" if direction == "backward" else "-"
        look = {"color": colors[name], "linestyle": style, "marker": ".", "linewidth": 1.2}
        axes.loglog(case.layers, of_case_s, label=case.name, **look)
    axes.set_xlabel("layers")
    axes.set_ylabel("time to schedule [s]")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    picture.legend(frameon=False, fontsize=8, loc="outside right upper")
    picture.savefig(path, dpi=160)


def main() -> None:
    """Measures, writes and draws."""
    times_s = {case: case.times_s() for case in cases()}
    results.write("scheduling_overhead", "Time to schedule", _INTRODUCTION, [table(times_s)])
    draw(results.picture_path("scheduling_overhead"), times_s)


if __name__ == "__main__":
    main()
