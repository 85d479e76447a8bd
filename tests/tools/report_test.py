"""Tests of `tf_dynacomm.tools.report`."""

import json

import pytest

from tf_dynacomm import epoch_report
from tf_dynacomm.tools import report

MEASURED = epoch_report.EpochReport(
    epoch=1,
    step_time_s=0.0213,
    predicted_step_time_s=0.0201,
    predicted_next_step_time_s=0.0172,
    pull_segments_before=6,
    pull_segments_after=2,
    push_segments_before=5,
    push_segments_after=3,
    matched_share=0.987,
    overhead_pull_s=0.00031,
    overhead_push_s=0.0004,
    rate_down_bytes_per_s=812e6,
    rate_up_bytes_per_s=790e6,
    replanned=True,
)
UNPLANNED = epoch_report.EpochReport(epoch=2, step_time_s=0.03)


def test_block_tells_all_that_was_measured_and_decided():
    assert report.epoch_block(MEASURED, {"loss": 0.25, "accuracy": 0.9}).splitlines() == [
        "  training  loss 0.2500   accuracy 0.9000",
        "  step      measured 21.30 ms   predicted 20.10 ms → 17.20 ms",
        "  trace     98.7% of the time matched",
        "  link      pull Δt 0.31 ms, 812.0 MB/s   push Δt 0.40 ms, 790.0 MB/s",
        "  segments  pull 6 → 2   push 5 → 3",
        "  plan      new, from the trace of this epoch",
    ]


def test_block_without_plan_tells_the_step_time_only():
    assert report.epoch_block(UNPLANNED, {"loss": 1.0}).splitlines() == [
        "  training  loss 1.0000",
        "  step      measured 30.00 ms   predicted ? → ?",
    ]


def test_block_tells_why_a_plan_was_kept():
    kept = epoch_report.EpochReport(1, 0.02, pull_segments_after=2, reason="it is the best one")

    assert report.epoch_block(kept, {}).endswith("  plan      kept: it is the best one")


def test_table_has_a_line_for_each_epoch():
    header, first, second = report.table([MEASURED, UNPLANNED]).splitlines()

    assert header.split()[:3] == ["epoch", "step", "predicted"]
    assert first.split() == ["1", "21.30", "ms", "20.10", "ms", "6", "5", "98.7%", "new", "plan"]
    assert second.split() == ["2", "30.00", "ms", "?", "0", "0", "?", "same", "plan"]


def test_table_is_aligned():
    assert len(set(map(len, report.table([MEASURED, UNPLANNED]).splitlines()))) == 1


def test_summary_has_the_plan_that_was_in_use():
    content = report.summary([MEASURED], test_accuracy=0.97, test_loss=0.1)

    assert content == {
        "test_accuracy": 0.97,
        "test_loss": 0.1,
        "epochs": [
            {
                "epoch": 1,
                "step_time_s": 0.0213,
                "predicted_step_time_s": 0.0201,
                "pull_segments": 6,
                "push_segments": 5,
                "matched_share": 0.987,
                "replanned": True,
            }
        ],
    }


def test_step_time_that_is_not_known_is_null(tmp_path):
    unknown = epoch_report.EpochReport(1, float("nan"))
    content = report.summary([unknown], test_accuracy=0.5, test_loss=1.0)

    report.write_summary(tmp_path / "summary.json", content)

    assert json.loads((tmp_path / "summary.json").read_text()) == content
    assert content["epochs"][0]["step_time_s"] is None
    assert "measured ? " in report.epoch_block(unknown, {})


def test_summary_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        report.write_summary(tmp_path / "nowhere" / "summary.json", {})


def test_earlier_summary_stays_when_writing_fails(tmp_path):
    path = tmp_path / "summary.json"
    report.write_summary(path, {"test_loss": 1.0})
    with pytest.raises(ValueError, match="JSON"):
        report.write_summary(path, {"test_loss": float("nan")})
    assert json.loads(path.read_text()) == {"test_loss": 1.0}
    assert list(tmp_path.iterdir()) == [path]
