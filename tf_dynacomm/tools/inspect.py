"""`dynacomm-inspect PATH`: shows what a trace holds, and what the costs made from it say.

PATH is a trace file, the folder of a run, or a `--logdir`, whose latest run is shown. The trace may
be of a training with `DynaCommStrategy`, whose `logdir` keeps the traced step beside it, or of one
with `ParameterServerStrategy`. Without the step's graph, layers are told by names alone.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from absl import flags

from tf_dynacomm.tools import command, inspect_run

_OPERATIONS = flags.DEFINE_integer(
    "operations", 10, "How many of the longest operations to show for each host.", lower_bound=0
)
_WORKER = flags.DEFINE_integer("worker", None, "Show this worker only.", lower_bound=0)
_STEP = flags.DEFINE_integer(
    "step",
    None,
    "Which whole step of the trace to show, from 1; the one of median length if not given.",
    lower_bound=1,
)
_JSON = flags.DEFINE_string("json", None, "File for the costs, as JSON.")
_CSV = flags.DEFINE_string("csv", None, "File for the costs, a line for each worker's layer.")
_PLOT = flags.DEFINE_string(
    "plot", None, "File for a picture of the measured step above the predicted: .svg or .png."
)
_CHROME = flags.DEFINE_string(
    "chrome", None, "File for the same as Chrome trace JSON, for ui.perfetto.dev."
)


def main(argv: Sequence[str]) -> None:
    """Prints the tables and writes the files."""
    options = inspect_run.Options(
        operations=_OPERATIONS.value,
        worker=_WORKER.value,
        step=_STEP.value,
        json=_JSON.value,
        csv=_CSV.value,
        plot=_PLOT.value,
        chrome=_CHROME.value,
    )
    inspect_run.show(pathlib.Path(argv[1]), options)


def run() -> None:
    """Runs the command."""
    command.run(main, operand="PATH")


if __name__ == "__main__":
    run()
