import dataclasses
import json

import pytest

from benchmarks import results, testbed_results
from tf_dynacomm.bench import rows

pytest.importorskip("matplotlib")


def _row(contender: str, step_s: float) -> rows.Row:
    fields = {field.name: 1.0 for field in dataclasses.fields(rows.Row)}
    names = {"model": "vgg19", "rate": "1gbit", "contender": contender, "links": "relay"}
    counts = {
        "latency_s": 0.01,
        "workers": 1,
        "median_step_s": step_s,
        "ratio_to_stock": step_s / 2,
    }
    return rows.Row(**{**fields, **names, **counts})


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    return tmp_path


def test_cell_is_one_line_with_the_best_of_the_others():
    cell = [_row("stock", 2.0), _row("sequential", 4.0), _row("ibatch", 1.5), _row("dynacomm", 1.2)]

    table = testbed_results.cells_table("grid", cell)
    line = dict(zip(table.header, table.rows[0], strict=True))
    assert (line["stock [s]"], line["sequential"], line["dynacomm"]) == (2.0, 2.0, 0.6)
    assert line["best other"] == "ibatch"
    assert line["dynacomm/best"] == pytest.approx(0.8)
    assert line["latency"] == "10 ms"


def test_cell_without_stock_and_dynacomm_has_gaps():
    table = testbed_results.cells_table("grid", [_row("sequential", 4.0)])

    line = dict(zip(table.header, table.rows[0], strict=True))
    assert line["stock [s]"] is None
    assert line["dynacomm/best"] is None


def test_cells_measured_again_replace_what_was_kept_of_them(folder):
    slow = dataclasses.replace(_row("stock", 9.0), rate="100mbit")
    testbed_results.keep_cells("grid", [_row("stock", 2.0), slow])
    testbed_results.keep_cells("grid", [_row("stock", 3.0)])

    kept = rows.read_json(folder / "results" / "testbed_grid.json")
    assert [(row.rate, row.median_step_s) for row in kept] == [("100mbit", 9.0), ("1gbit", 3.0)]


def test_page_holds_all_that_is_kept(folder, capsys):
    testbed_results.keep("grid", [_row("stock", 2.0), _row("dynacomm", 1.2)])
    testbed_results.keep("link_change", [testbed_results.Moment("fresh", 6, [0.5], [3], [2])])

    page = (folder / "RESULTS.md").read_text()
    assert "### grid: step against stock's" in page
    assert "### link_change: step of each epoch" in page
    assert (folder / "results" / "testbed_grid.png").exists()
    kept = json.loads((folder / "results" / "testbed_link_change.json").read_text())
    assert kept[0]["step_s"] == [0.5]


def test_accuracies_stand_side_by_side():
    points = [
        testbed_results.Point(run, epoch, accuracy, 10.0 * epoch)
        for run, accuracy in (("stock", 0.5), ("dynacomm", 0.75))
        for epoch in (1, 2)
    ]
    table = testbed_results.points_table("accuracy", points)
    assert table.header == ("epoch", "stock", "dynacomm", "stock [s]", "dynacomm [s]")
    assert table.rows == (("1", 0.5, 0.75, 10.0, 10.0), ("2", 0.5, 0.75, 20.0, 20.0))


def test_epochs_stand_beside_those_of_the_first_run():
    moments = [
        testbed_results.Moment(run, epoch, [step_s], [3], [2])
        for run, step_s in (("fixed plan", 0.5), ("re-planned", 0.4))
        for epoch in (1, 2)
    ]
    table = testbed_results.moments_table("steady", moments)
    assert [row[3] for row in table.rows] == pytest.approx([1.0, 1.0, 0.8, 0.8])


def test_overheads_are_in_milliseconds_and_percent():
    overhead = testbed_results.Overhead("vgg19", 19, 0.001, 0.002, 0.003, 15.0, 0.01)

    table = testbed_results.overheads_table("overheads", [overhead])
    assert table.rows[0] == ("vgg19", "19", 1.0, 2.0, 3.0, 15.0, 1.0)
