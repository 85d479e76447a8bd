"""What `dynacomm-inspect` does: reads a trace, prints its tables and writes the files asked for."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_dynacomm import costs as costs_lib
from tf_dynacomm.tools import command, environment, inspect_tables, reading_bar

if TYPE_CHECKING:
    from tf_dynacomm.profiling import analysis as analysis_lib
    from tf_dynacomm.profiling import run as run_lib

_OUTPUTS = ("json", "csv", "plot", "chrome")


@dataclasses.dataclass(frozen=True)
class Options:
    """What is to be shown and written.

    Attributes:
      operations: How many of the longest operations to show for each host.
      worker: Show this worker only, if any is given.
      step: Which whole step to show, from 1; the one of median length if `None`.
      json: File for the costs, as JSON.
      csv: File for the costs, a line for each worker's layer.
      plot: File for a picture of the measured step above the predicted.
      chrome: File for the same as Chrome trace JSON.
    """

    operations: int = 10
    worker: int | None = None
    step: int | None = None
    json: str | None = None
    csv: str | None = None
    plot: str | None = None
    chrome: str | None = None


def show(path: pathlib.Path, options: Options) -> None:
    """Prints the tables of a trace and writes the files.

    Raises:
      UserError: The trace tells nothing of what is asked for, or a file cannot be written.
    """
    _check_outputs(options)
    environment.load_tensorflow()
    from tf_dynacomm.profiling import trace

    try:
        run = _load(path)
        print(inspect_tables.run_section(path, run))
        for host in run.hosts:
            print(inspect_tables.host_section(host, options.operations))
        analyses = _analyses(path, run, options.worker)
    except trace.TraceError as error:
        raise command.UserError(str(error)) from error
    for analysis in analyses:
        print(inspect_tables.worker_section(analysis, options.step))
    costs_path = inspect_tables.latest_costs(path)
    if costs_path is not None:
        with command.user_errors("PATH"):
            costs = costs_lib.LayerCosts.load(costs_path)
        print(inspect_tables.costs_section(costs_path.name, costs))
    _write(analyses, options)


def _check_outputs(options: Options) -> None:
    """Finds out before a long reading which files cannot be written."""
    paths = [getattr(options, flag) for flag in _OUTPUTS]
    for flag, path in zip(_OUTPUTS, paths, strict=True):
        if path is None:
            continue
        if paths.count(path) > 1:
            raise command.UserError(f"--{flag}: {path} is another flag's file too; name another.")
        if not pathlib.Path(path).parent.is_dir():
            raise command.UserError(f"--{flag}: the folder of {path} is not there; make it first.")


def _load(path: pathlib.Path) -> run_lib.Run:
    from tf_dynacomm.profiling import run, trace_files

    sizes_bytes = [file.stat().st_size for file in trace_files.run_files(path) if file.exists()]
    bar = reading_bar.ReadingBar(sum(sizes_bytes))
    try:
        return run.load(path, bar)
    finally:
        bar.close()


def _analyses(
    path: pathlib.Path, run: run_lib.Run, worker: int | None
) -> list[analysis_lib.Analysis]:
    """What can be said of each worker that is asked for.

    Raises:
      trace.TraceError: If nothing can be said of any.
    """
    from tf_dynacomm.profiling import analysis, trace

    wanted = [w for w in run.workers if worker in (None, w)]
    if not wanted:
        raise trace.TraceError(
            f"{path}: no worker{'' if worker is None else f' {worker}'} of a parameter server "
            "training in this trace, which would have sent tensors to a PS task."
        )
    found = []
    for each in wanted:
        try:
            found.append(analysis.analyse(run, each))
        except trace.TraceError as error:
            if each == wanted[-1] and not found:
                raise trace.TraceError(f"{path}: {error}") from error
            print(f"worker {each}: {error}\n")
    return found


def _write(analyses: Sequence[analysis_lib.Analysis], options: Options) -> None:
    from tf_dynacomm.tools import inspect_files

    for flag, write, arguments in (
        ("json", inspect_files.write_json, ()),
        ("csv", inspect_files.write_csv, ()),
        ("plot", inspect_files.write_plot, (options.step,)),
        ("chrome", inspect_files.write_chrome, (options.step,)),
    ):
        path = getattr(options, flag)
        if path is not None:
            try:
                with command.user_errors(f"--{flag}"):
                    write(path, analyses, *arguments)
            except ImportError as error:
                raise command.UserError(f"--{flag}: {error}") from error
