"""Lets tasks and links fail under a training, by our strategy and by TensorFlow's own in turn.

    python -m benchmarks.reliability [--times=1]

The faults are those of `tests/faults`. Writes `docs/reliability.md`; takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence

import tensorflow as tf

import tf_dynacomm
from benchmarks import results
from tests.faults import restarts, runs, scenarios, soak

_FILE = pathlib.Path(__file__).parents[1] / "docs" / "reliability.md"
_STRATEGIES = ("dynacomm", "stock")
_INTRODUCTION = """\
Faults on clusters of two workers and one PS task, each a process of its own on one machine, under
`DynaCommStrategy` with `ReplanCallback` and under TensorFlow's own `ParameterServerStrategy`
(stock). Processes are ended with SIGKILL and stopped with SIGSTOP; links are a relay's. Of several
times the worst is given. A worker that is started again takes some seconds to import TensorFlow,
which is part of neither time."""
_WORKERS_NOTE = """\
Steps lost: steps that the training had to do and that the optimizer has not counted. TensorFlow
does an interrupted step again, so that one may count twice. Standstill: the longest time without a
step's end, from the fault on. Back: from the end of the fault to the end of the next step of the
worker that it hit. No data are lost, but a worker that was killed begins its dataset anew, as under
stock. Stock does not plan, so that no fault can befall it then. While a worker does not answer no
new plan gets ready, since TensorFlow tells every task of a new function and waits for its answer;
the others go on by the plans that they have."""
_RESTARTS_NOTE = """\
`dynacomm-train` with `--checkpoint_dir`; workers go on running. The epoch under way is done again;
epochs lost are those before it. Back: from the new start, with the import of TensorFlow, to the end
of the first epoch."""
_SOAK_NOTE = """\
A seeded script lets a worker change to one of six plans again and again, and kills worker 1 and
starts it again, while every epoch is traced and planned. Beside it the same without kills or
changes, and both under stock. The accuracy is that on examples not trained on."""
_USAGE_NOTE = """\
What the tasks of the disturbed trainings held after a third of the script and at its end; files are
open files, of which each connection is one. Worker 1 is not the same process at both moments. The
bound is 5 % of each and 8 threads or files: what is more is marked with a !."""
_MORE, _MORE_OF = 0.05, {"threads": 8, "files": 8, "memory_mib": 0}
_OF_WORKERS = {
    "steps lost": lambda seen: seen.steps_lost,
    "counted twice": lambda seen: seen.steps_twice,
    "standstill [s]": lambda seen: seen.standstill_s,
    "back [s]": lambda seen: seen.back_s,
}
_OF_RESTARTS = {
    "epochs lost": lambda seen: seen.last_epoch + 1 - seen.first_epoch,
    "error": lambda seen: seen.error,
    "ended after [s]": lambda seen: seen.ended_s,
    "back [s]": lambda seen: seen.back_s,
}


def observe_workers(
    times: int, faults: Sequence[scenarios.Scenario]
) -> Iterator[tuple[str, dict[str, list[scenarios.Observation]]]]:
    """What each fault of a worker did, by strategy."""
    for over_links in (False, True):
        with scenarios.cluster_for(over_links) as cluster:
            for scenario in faults:
                if scenario.over_links == over_links:
                    strategies = _STRATEGIES if scenario.during is None else _STRATEGIES[:1]
                    yield (
                        scenario.name,
                        {
                            strategy: [_observe(scenario, cluster, strategy) for _ in range(times)]
                            for strategy in strategies
                        },
                    )


def _observe(scenario, cluster, strategy: str) -> scenarios.Observation:
    run = runs.Run(cluster, stock=strategy == "stock")
    # Every plan made is taken, so that plans do change.
    replan = [] if strategy == "stock" else [tf_dynacomm.ReplanCallback(min_gain=-1.0)]
    seen = scenario.observe(run, replan)
    if not scenario.returns:
        scenarios.heal(run)
    return seen


def observe_restarts(times: int) -> Iterator[tuple[str, dict[str, list[restarts.Restart]]]]:
    """What the loss of the chief and of a PS did, by strategy."""
    with scenarios.cluster_for(over_links=False) as cluster:
        for lost in restarts.LOST:
            yield (
                f"{lost} killed and started again",
                {
                    strategy: [_restart(lost, cluster, strategy) for _ in range(times)]
                    for strategy in _STRATEGIES
                },
            )


def _restart(lost: str, cluster, strategy: str) -> restarts.Restart:
    with tempfile.TemporaryDirectory() as folder:
        return restarts.lose(lost, cluster, pathlib.Path(folder), strategy)


def soak_tables(steps: int) -> list[results.Table]:
    """A long training that is disturbed, and one that is not, by strategy."""
    outcomes, usages = [], []
    with scenarios.cluster_for(over_links=False) as cluster:
        for strategy in _STRATEGIES:
            is_stock = strategy == "stock"
            disturbed = soak.Soak(steps, changes=60, kills=6)
            run = disturbed.train(cluster, is_stock)
            counted, accuracy = run.steps_counted, soak.accuracy(run)
            calm = soak.Soak(counted).train(cluster, is_stock)
            lost = max(0, run.steps_asked - counted)
            happened = (disturbed.done.get(name, 0) for name in ("changes", "kills"))
            cells = (counted, *happened, lost, f"{accuracy:.3f}", f"{soak.accuracy(calm):.3f}")
            outcomes.append((strategy, *map(str, cells)))
            usages += [(strategy, *row) for row in _usage_rows(disturbed)]
    header = ("", "steps", "changes of plan", "kills", "steps lost", "accuracy", "undisturbed")
    held = (
        "",
        "task",
        "memory [MiB]",
        "at the end",
        "threads",
        "at the end",
        "files",
        "at the end",
    )
    return [
        results.Table("A long training", header, tuple(outcomes), _SOAK_NOTE),
        results.Table("What its tasks held", held, tuple(usages), _USAGE_NOTE),
    ]


def _usage_rows(disturbed: soak.Soak) -> Iterator[tuple[str, ...]]:
    for task, (early, _, late) in disturbed.usage.items():
        cells = []
        for name, spare in _MORE_OF.items():
            before, after = getattr(early, name), getattr(late, name)
            mark = " !" if after > (1 + _MORE) * before + spare else ""
            cells += [f"{before:.0f}", f"{after:.0f}{mark}"]
        yield task, *cells[-2:], *cells[:-2]


def table(
    title: str,
    note: str,
    columns: dict[str, Callable[[object], float | str | None]],
    seen: Iterable[tuple[str, dict[str, Sequence]]],
) -> results.Table:
    """A row for each fault; each column's worst value, ours and stock's beside it."""
    header = ("fault", "times", *(n for name in columns for n in (name, "stock")))
    rows = []
    for fault, of_strategy in seen:
        print(fault, of_strategy, flush=True)
        cells = [
            _worst([value(one) for one in of_strategy.get(strategy, ())])
            for value in columns.values()
            for strategy in _STRATEGIES
        ]
        rows.append((fault, str(len(of_strategy["dynacomm"])), *cells))
    return results.Table(title, header, tuple(rows), note)


def _worst(values: Sequence[float | str | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    worst = max(known)
    return worst if isinstance(worst, str) else format(worst, "d" if worst == int(worst) else ".1f")


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=1, help="How often each fault is injected.")
    parser.add_argument("--stopped_s", type=float, default=20.0, help="How long a worker stops.")
    parser.add_argument(
        "--cut_s", type=float, default=30.0, help="How long links are cut, or slow."
    )
    parser.add_argument("--soak_steps", type=int, default=2000, help="Steps of the long training.")
    args = parser.parse_args()
    workers = observe_workers(args.times, scenarios.scenarios(args.stopped_s, args.cut_s))
    restarted = observe_restarts(args.times)
    tables = [
        table("Faults through which training goes on", _WORKERS_NOTE, _OF_WORKERS, workers),
        table("Faults that end it until a new start", _RESTARTS_NOTE, _OF_RESTARTS, restarted),
        *soak_tables(args.soak_steps),
    ]
    _FILE.write_text("\n\n".join([_head(args.times), *(t.markdown() for t in tables)]) + "\n")


def _head(times: int) -> str:
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    return (
        f"# Reliability\n\nWritten by `python -m benchmarks.reliability --times={times}` on "
        f"{today}, with TensorFlow {tf.__version__} on {os.cpu_count()} cores.\n\n{_INTRODUCTION}"
    )


if __name__ == "__main__":
    main()
