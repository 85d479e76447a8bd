import pathlib

import pytest

from tf_dynacomm import LayerCosts
from tf_dynacomm.profiling import analysis, run, trace
from tf_dynacomm.tools import command, inspect_tables

_TRACES = pathlib.Path(__file__).parents[2] / "testdata" / "traces"


def _costs() -> LayerCosts:
    return LayerCosts([3, 1], [2, 2], [4, 2], [3, 1], overhead_s=0.5, names=["conv", "dense"])


@pytest.fixture(scope="module")
def stock():
    return analysis.analyse(run.load(_TRACES / "stock"), 0)


def test_a_host_shows_what_it_received_and_its_longest_operations():
    step = trace.StepTrace(
        [trace.Operation("short", 0.0, 0.001), trace.Operation("long", 0.0, 0.002)],
        {"w": trace.Transfer("w", 0.5, 0.75)},
    )
    shown = inspect_tables.host_section(trace.HostTrace("a:1", {7: step}, "ps:0"), operations=1)
    assert "a:1 (ps:0): 1 functions ran, 1 of them received" in shown
    assert "250.000" in shown
    assert "2.000" in shown
    assert "short" not in shown


def test_costs_show_each_layer_and_every_scheduler():
    shown = inspect_tables.costs_section("costs-1.json", _costs())
    assert "4000.000" in shown
    assert shown.index("dynacomm") < shown.index("sequential")


def test_gains_are_told_against_the_plan_in_force():
    shown = inspect_tables.comparison(_costs())
    (line,) = (line for line in shown.splitlines() if line.startswith("sequential"))
    assert line.split()[-1].endswith("%")
    assert "dynacomm proposes pull" in shown


def test_the_latest_epoch_is_shown(tmp_path):
    for epoch in (2, 10, 9):
        _costs().save(tmp_path / f"costs-{epoch}.json")
    assert inspect_tables.latest_costs(tmp_path) == tmp_path / "costs-10.json"
    assert inspect_tables.latest_costs(pathlib.Path("nowhere")) is None


def test_parameters_and_bytes_are_those_of_the_variables(stock):
    sizes = dict(zip(stock.costs.names, inspect_tables.sizes(stock), strict=True))
    assert sizes["conv2d"] == (3 * 3 * 1 * 32, 4 * 3 * 3 * 1 * 32)
    assert sizes["dense_1"] == (128 * 10 + 10, 4 * (128 * 10 + 10))


def test_a_step_is_chosen_by_number_or_is_the_median_one(stock):
    assert inspect_tables.chosen_step(stock, 1) is stock.steps[0]
    lengths_s = sorted(s.end_s - s.begin_s for s in stock.steps)
    chosen = inspect_tables.chosen_step(stock, None)
    assert chosen.end_s - chosen.begin_s == lengths_s[len(lengths_s) // 2]


def test_a_step_that_is_not_there_is_refused(stock):
    count = len(stock.steps)
    with pytest.raises(
        command.UserError, match=rf"--step \({count + 1}\) must be at most {count}:"
    ):
        inspect_tables.chosen_step(stock, count + 1)


def test_gains_over_stock_are_told_against_the_step_that_was_measured(stock):
    _, table = inspect_tables.worker_section(stock, None).split("stock, measured")
    (*_, measured_ms), *schedulers = (
        line.split() for line in table.partition("\n\n")[0].split("\n")
    )
    measured_ms = float(measured_ms)
    assert measured_ms == pytest.approx(stock.measurement.span_s * 1e3, abs=1e-3)
    for *_, predicted_ms, gain in schedulers:
        expected = 100 * (1 - float(predicted_ms) / measured_ms)
        assert float(gain.rstrip("%")) == pytest.approx(expected, abs=0.1)


def test_the_step_that_is_shown_is_named(stock):
    shown = inspect_tables.worker_section(stock, 1)
    assert f"step 1 of {len(stock.steps)}:" in shown
    assert ", one every " in shown
