"""`dynacomm-bench`: measures schedulers and stock side by side, on a cluster with shaped links.

    dynacomm-bench --models=emulated:resnet152:0.125:0.5:1.0 --rates=250mbit --latencies_ms=0,10

starts a cluster on this machine for each model, latency and number of workers, and lets contenders
take turns on it at each rate. A model is the name of a real one or
`emulated:ARCHITECTURE:SCALE:FORWARD_S:BACKWARD_S`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

from absl import flags

from tf_dynacomm.bench import contenders, plot, rows
from tf_dynacomm.bench.workload import Cell, Rate, Settings, Workload
from tf_dynacomm.tools import command, environment, quantities

_MODELS = flags.DEFINE_list("models", ["emulated:resnet152:0.125:0.5:1.0"], "What is trained.")
_RATES = flags.DEFINE_list("rates", ["250mbit"], "Rates of the workers' links, down and up.")
_LATENCIES_MS = flags.DEFINE_list(
    "latencies_ms", ["0"], "Latencies that the links add, each way, in milliseconds."
)
_WORKERS = flags.DEFINE_list("workers", ["1"], "Numbers of workers.")
_PS_RATE = flags.DEFINE_string(
    "ps_rate", None, "Rate of the link that all workers share to the PS. Default: not limited."
)
_CONTENDERS = flags.DEFINE_list("contenders", list(contenders.NAMES), "Who competes.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "How often each has its turn.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 5, "Steps in each turn.", lower_bound=1)
_IMAGES = flags.DEFINE_integer("images", 32, "Images in a step of a real model.", lower_bound=1)
_LINKS = flags.DEFINE_enum(
    "links", "auto", ["auto", "namespaces", "relay"], "How links are made; auto: the best possible."
)
_JSON = flags.DEFINE_string("json", None, "File for the results as JSON.")
_CSV = flags.DEFINE_string("csv", None, "File for the results as CSV.")
_CHART = flags.DEFINE_string("chart", None, "File for a bar chart: .svg, .png or .pdf.")


def grid() -> tuple[list[Cell], list[Rate]]:
    """The cells and rates that the flags name.

    Raises:
      UserError: A flag is wrong.
    """
    with command.user_errors("--models"):
        workloads = [Workload.parse(text, _IMAGES.value) for text in _MODELS.value]
    with command.user_errors("--rates"):
        rates = [Rate(text, quantities.rate_bytes_per_s(text)) for text in _RATES.value]
    with command.user_errors("--latencies_ms"):
        latencies_s = [_number(text, float, 0) / 1e3 for text in _LATENCIES_MS.value]
    with command.user_errors("--workers"):
        workers = [_number(text, int, 1) for text in _WORKERS.value]
    if not all((workloads, rates, latencies_s, workers)):
        raise command.UserError("--models, --rates, --latencies_ms and --workers must not be empty")
    combinations = itertools.product(workloads, workers, latencies_s)
    return [Cell(w, latency_s, count) for w, count, latency_s in combinations], rates


def _number(text: str, kind: type, least: float):
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"{text!r} must be a number.") from None
    if not least <= value < 1e9:
        raise ValueError(f"{text} must be at least {least}.")
    return value


def settings() -> Settings:
    """How cells are run, as the flags say.

    Raises:
      UserError: A flag is wrong.
    """
    unknown = [name for name in _CONTENDERS.value if name not in contenders.NAMES]
    if unknown or not _CONTENDERS.value:
        names = ", ".join(contenders.NAMES)
        raise command.UserError(f"--contenders: {', '.join(unknown)!r} must be of {names}")
    ps_rate = {}
    if _PS_RATE.value is not None:
        with command.user_errors("--ps_rate"):
            ps_rate["ps_bytes_per_s"] = quantities.rate_bytes_per_s(_PS_RATE.value)
    how = None if _LINKS.value == "auto" else _LINKS.value
    return Settings(_CONTENDERS.value, _ROUNDS.value, _STEPS.value, how, **ps_rate)


def write(results: Sequence[rows.Row]) -> None:
    """Writes the files that the flags name.

    Raises:
      UserError: One cannot be written.
    """
    for flag, path, write_rows in (
        ("--json", _JSON.value, rows.write_json),
        ("--csv", _CSV.value, rows.write_csv),
        ("--chart", _CHART.value, plot.write),
    ):
        if path is not None:
            try:
                with command.user_errors(flag):
                    write_rows(path, results)
            except ImportError as e:
                raise command.UserError(f"{flag}: {e}") from e


def main(argv: Sequence[str]) -> None:
    """Runs the grid, and writes what is asked for after each cell."""
    del argv
    environment.load_tensorflow()
    from tf_dynacomm.bench import cells

    grid_cells, rates = grid()
    how = settings()
    results: list[rows.Row] = []
    for cell in grid_cells:
        for row in cells.run(cell, rates, how, _report):
            results.append(row)
            write(results)
    print(rows.table(results))
    print(f"\nlinks: {results[0].links}")


def _report(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


def run() -> None:
    """Runs the command."""
    command.run(main)


if __name__ == "__main__":
    run()
