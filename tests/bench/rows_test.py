import csv
import json

import numpy as np
import pytest

from tf_dynacomm import LayerCosts, Plan
from tf_dynacomm.bench import rows

_COSTS = LayerCosts([9.0, 9.0], [1.0, 1.0], [2.0, 2.0], [9.0, 9.0], overhead_s=0.5)
_IDEAL = rows.ideal_costs(_COSTS, [100, 200], [100, 100], 100.0)
_PLAN = Plan([(1, 1), (2, 2)], [(1, 2)])


def test_ideal_link_has_the_rate_and_no_overhead():
    assert _IDEAL.pull_s.tolist() == [1.0, 2.0]
    assert _IDEAL.push_s.tolist() == [1.0, 1.0]
    assert _IDEAL.forward_s.tolist() == [1.0, 1.0]
    assert _IDEAL.overhead_s == (0.0, 0.0)


def test_bound_is_the_best_step_on_the_ideal_link():
    assert rows.bound_s(_IDEAL) == 4.0 + 5.0


def test_duplex_limit_is_what_takes_longest_by_itself():
    assert rows.duplex_limit_s(_IDEAL) == 6.0
    assert rows.duplex_limit_s(rows.ideal_costs(_COSTS, [100, 900], [1, 1], 100.0)) == 10.0


@pytest.mark.parametrize(
    ("step_s", "portions"),
    [(12.5, (6.0, 0.0, 6.5)), (10.0, (3.5, 2.5, 4.0)), (6.0, (0.0, 6.0, 0.0))],
)
def test_overlap_is_what_computation_and_transfers_are_longer_than_the_step(step_s, portions):
    found = rows.portions(step_s, _IDEAL, _COSTS, _PLAN)

    assert (found.computation_s, found.overlap_s, found.communication_s) == portions


def test_stock_has_no_segments_with_overhead():
    assert rows.portions(10.0, _IDEAL, _COSTS, None).overlap_s == 1.0


def test_ratios_are_taken_round_by_round():
    times_s = {"stock": [2.0, 4.0], "dynacomm": [1.0, 3.0]}

    assert np.array_equal(rows.ratios(times_s, "dynacomm"), [0.5, 0.75])
    assert rows.ratios({"dynacomm": [1.0]}, "dynacomm") is None


def test_table_has_a_line_for_each_row(some_rows):
    header, *lines = rows.table(some_rows).splitlines()

    assert header.split()[:2] == ["model", "rate"]
    assert "dynacomm    3+2       1.500 s  0.750 (0.750-0.750)  1.500 s" in lines[2]
    assert lines[2].endswith("+50.0%      +200.0%")


def test_json_is_read_back(tmp_path, some_rows):
    rows.write_json(tmp_path / "rows.json", some_rows)

    assert rows.read_json(tmp_path / "rows.json") == some_rows
    names = {"model", "rate", "latency_s", "workers", "contender", "median_step_s"}
    names |= {"ratio_to_stock", "bound_s", "predicted_s"}
    assert names <= json.loads((tmp_path / "rows.json").read_text())[0].keys()


def test_other_json_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('[{"a": 1}]')

    with pytest.raises(ValueError, match=r"other\.json: no rows"):
        rows.read_json(tmp_path / "other.json")


def test_csv_has_the_same_columns(tmp_path, some_rows):
    rows.write_csv(tmp_path / "rows.csv", some_rows)

    with open(tmp_path / "rows.csv", newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["contender"] for row in read] == ["stock", "sequential", "dynacomm"]
    assert read[2]["median_step_s"] == "1.5"
