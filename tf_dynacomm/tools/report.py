"""What a training tells its user: a block after each epoch, a table and a summary at the end."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tf_dynacomm import files
from tf_dynacomm.tools import table as table_lib

if TYPE_CHECKING:
    from tf_dynacomm import epoch_report

_UNKNOWN = "?"
_TABLE_HEADER = ("epoch", "step", "predicted", "pull segments", "push segments", "matched", "then")


def epoch_block(report: epoch_report.EpochReport, logs: Mapping[str, float]) -> str:
    """Describes an epoch and what was decided at its end, in a few lines.

    Args:
      report: What was measured and decided.
      logs: The epoch's training metrics.
    """
    lines = [
        ("training", "   ".join(f"{name} {value:.4f}" for name, value in logs.items())),
        ("step", f"measured {_time(report.step_time_s)}   predicted {_predictions(report)}"),
    ]
    if report.matched_share is not None:
        lines += [
            ("trace", f"{_share(report.matched_share)} of the time matched"),
            ("link", f"{_link('pull', report)}   {_link('push', report)}"),
        ]
    if report.pull_segments_after:
        lines += [
            ("segments", f"pull {_segments('pull', report)}   push {_segments('push', report)}"),
            ("plan", _decision(report)),
        ]
    return "\n".join(f"  {label:<9} {text}" for label, text in lines)


def table(reports: Sequence[epoch_report.EpochReport]) -> str:
    """Describes all epochs, a line for each, with the plan that was in use during the epoch."""
    return table_lib.table(_TABLE_HEADER, map(_row, reports), gap=3, left=0)


def summary(
    reports: Sequence[epoch_report.EpochReport], *, test_accuracy: float, test_loss: float
) -> dict[str, Any]:
    """Returns what the table tells, and the model's test results, in a form for JSON.

    Times are in seconds, shares and the accuracy from 0 to 1. The segments and the prediction
    are those of the plan that was in use during the epoch.
    """
    return {
        "test_accuracy": _known(test_accuracy),
        "test_loss": _known(test_loss),
        "epochs": [
            {
                "epoch": report.epoch,
                "step_time_s": _known(report.step_time_s),
                "predicted_step_time_s": _known(report.predicted_step_time_s),
                "pull_segments": report.pull_segments_before,
                "push_segments": report.push_segments_before,
                "matched_share": report.matched_share,
                "replanned": report.replanned,
            }
            for report in reports
        ],
    }


def write_summary(path: str | pathlib.Path, content: Mapping[str, Any]) -> None:
    """Writes a summary as JSON.

    Raises:
      OSError: The file cannot be written.
    """
    files.write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def _row(report: epoch_report.EpochReport) -> tuple[str, ...]:
    return (
        f"{report.epoch}",
        _time(report.step_time_s),
        _time(report.predicted_step_time_s),
        f"{report.pull_segments_before}",
        f"{report.push_segments_before}",
        _share(report.matched_share),
        "new plan" if report.replanned else "same plan",
    )


def _time(time_s: float | None) -> str:
    known_s = _known(time_s)
    return _UNKNOWN if known_s is None else f"{known_s * 1e3:.2f} ms"


def _known(value: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _share(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share:.1%}"


def _predictions(report: epoch_report.EpochReport) -> str:
    before, after = report.predicted_step_time_s, report.predicted_next_step_time_s
    return f"{_time(before)} → {_time(after)}"


def _segments(direction: str, report: epoch_report.EpochReport) -> str:
    before = getattr(report, f"{direction}_segments_before")
    return f"{before} → {getattr(report, f'{direction}_segments_after')}"


def _link(direction: str, report: epoch_report.EpochReport) -> str:
    overhead_s, rate = {
        "pull": (report.overhead_pull_s, report.rate_down_bytes_per_s),
        "push": (report.overhead_push_s, report.rate_up_bytes_per_s),
    }[direction]
    if rate is None:
        rate_text = _UNKNOWN
    else:
        rate_text = f"{rate / 1e6:.1f} MB/s" if math.isfinite(rate) else "too fast to measure"
    return f"{direction} Δt {_time(overhead_s)}, {rate_text}"


def _decision(report: epoch_report.EpochReport) -> str:
    if report.replanned:
        return "new, from the trace of this epoch"
    return f"kept: {report.reason}" if report.reason else "kept"
