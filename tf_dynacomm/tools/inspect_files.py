"""The files that `dynacomm-inspect` writes: costs as JSON and CSV, and pictures of a step."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Sequence

from tf_dynacomm import files, timeline, timeline_plot, timeline_trace
from tf_dynacomm.profiling import analysis as analysis_lib
from tf_dynacomm.profiling import measured_timeline
from tf_dynacomm.tools import inspect_tables

_COLUMNS = (
    "worker",
    "layer",
    "parameters",
    "bytes",
    "forward_s",
    "backward_s",
    "pull_s",
    "push_s",
    "apply_s",
)
_MEASURED, _PREDICTED = "measured", "predicted"


def write_json(path: str | os.PathLike, analyses: Sequence[analysis_lib.Analysis]) -> None:
    """Writes the costs of each worker as JSON; what is not known is `null`.

    Raises:
      OSError: If the file cannot be written.
    """
    content = {"workers": [_worker(analysis) for analysis in analyses]}
    text = json.dumps(content, indent=1, allow_nan=False)
    files.write_text(path, f"{text}\n")


def write_csv(path: str | os.PathLike, analyses: Sequence[analysis_lib.Analysis]) -> None:
    """Writes a line for each worker's layer; what is not known is empty.

    Raises:
      OSError: If the file cannot be written.
    """
    with files.whole(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for analysis in analyses:
            for layer in _layers(analysis):
                writer.writerow([analysis.worker, *layer.values()])


def write_plot(
    path: str | os.PathLike, analyses: Sequence[analysis_lib.Analysis], step: int | None
) -> None:
    """Draws each worker's measured step above the predicted one.

    Raises:
      ImportError: If matplotlib is missing.
      OSError: If the file cannot be written.
      ValueError: If the suffix is of no known format.
    """
    steps = _timelines(analyses, step)
    against = {title: title.replace(_PREDICTED, _MEASURED) for title in steps}
    timeline_plot.write(path, steps, against)


def write_chrome(
    path: str | os.PathLike, analyses: Sequence[analysis_lib.Analysis], step: int | None
) -> None:
    """Writes each worker's measured and predicted step as Chrome trace JSON.

    Raises:
      OSError: If the file cannot be written.
    """
    timeline_trace.write(path, _timelines(analyses, step))


def _timelines(analyses, number: int | None) -> dict[str, timeline.Timeline]:
    found = {}
    for analysis in analyses:
        step = inspect_tables.chosen_step(analysis, number)
        measured = measured_timeline.timeline_of(step, analysis.costs, analysis.plan)
        before = f"worker {analysis.worker}, " if len(analyses) > 1 else ""
        found[f"{before}{_MEASURED}"] = measured
        found[f"{before}{_PREDICTED}"] = timeline.simulate(analysis.costs, measured.plan)
    return found


def _worker(analysis: analysis_lib.Analysis) -> dict:
    measurement = analysis.measurement
    return {
        "worker": analysis.worker,
        "host": analysis.host,
        "by_name_only": analysis.layers is None,
        "layers": [{"name": layer.pop("layer"), **layer} for layer in _layers(analysis)],
        "overhead_pull_s": measurement.down.overhead_s,
        "overhead_push_s": measurement.up.overhead_s,
        "rate_down_bytes_per_s": _known(measurement.down.rate_bytes_per_s),
        "rate_up_bytes_per_s": _known(measurement.up.rate_bytes_per_s),
        "matched_share": measurement.matched_share,
        "confidence": measurement.confidence,
        "steps": measurement.steps,
        "span_s": measurement.span_s,
        "clocks": {
            task: {"offset_s": offset.offset_s, "error_s": offset.error_s}
            for task, offset in measurement.offsets.items()
        },
    }


def _layers(analysis: analysis_lib.Analysis) -> list[dict]:
    costs = analysis.costs
    sizes = inspect_tables.sizes(analysis)
    return [
        {
            "layer": name,
            "parameters": parameters,
            "bytes": size_bytes,
            "forward_s": float(costs.forward_s[i]),
            "backward_s": float(costs.backward_s[i]),
            "pull_s": float(costs.pull_s[i]),
            "push_s": float(costs.push_s[i]),
            "apply_s": float(costs.apply_s[i]),
        }
        for i, (name, (parameters, size_bytes)) in enumerate(zip(costs.names, sizes, strict=True))
    ]


def _known(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None
