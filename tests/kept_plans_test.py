import pathlib

import pytest

from tf_dynacomm import costs, kept_plans, schedulers
from tf_dynacomm import plan as plan_lib

_PLAN = plan_lib.Plan(((1, 1), (2, 2)), ((1, 2),), names=["a", "b"], scheduler="dynacomm")
_OTHER = plan_lib.Plan(((1, 2),), ((1, 2),), names=["a", "b"])
_COSTS = costs.LayerCosts([1, 2], [1, 2], [1, 2], [1, 2], 0.1)


def test_plans_that_are_kept_are_found_again(tmp_path):
    kept_plans.save(tmp_path / "new", {0: _PLAN, 1: _OTHER}, {1: _COSTS})
    assert kept_plans.load(tmp_path / "new", 3, "dynacomm") == {0: _PLAN, 1: _OTHER}
    assert costs.LayerCosts.load(tmp_path / "new" / "costs-worker1.json").names == _COSTS.names


def test_a_worker_that_runs_as_stock_begins_with_the_plan_of_its_costs(tmp_path):
    kept_plans.save(tmp_path, {0: _PLAN}, {})
    kept_plans.save(tmp_path, {0: None}, {})
    assert kept_plans.load(tmp_path, 1, "dynacomm") == {}

    kept_plans.save(tmp_path, {0: None}, {0: _COSTS})
    kept = kept_plans.load(tmp_path, 1, "dynacomm")
    assert kept == {0: schedulers.get("dynacomm")(_COSTS)}


def test_another_scheduler_begins_with_its_own_plan(tmp_path):
    kept_plans.save(tmp_path, {0: _PLAN}, {})
    assert kept_plans.load(tmp_path, 1, "sequential") == {0: _PLAN}

    kept_plans.save(tmp_path, {0: _PLAN}, {0: _COSTS})
    kept = kept_plans.load(tmp_path, 1, "sequential")
    assert kept[0].scheduler == "sequential"


def test_a_plan_that_no_scheduler_made_is_kept_although_there_are_costs(tmp_path):
    kept_plans.save(tmp_path, {0: _OTHER}, {0: _COSTS})
    assert kept_plans.load(tmp_path, 1, "dynacomm") == {0: _OTHER}


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": "tf_dynacomm.plots"}'])
def test_what_is_damaged_is_told_and_left_out(tmp_path, caplog, content):
    kept_plans.save(tmp_path, {0: _PLAN, 1: _PLAN}, {0: _COSTS})
    for kept in ("plan", "costs"):
        (tmp_path / f"{kept}-worker0.json").write_bytes(content)
    assert kept_plans.load(tmp_path, 2, "dynacomm") == {1: _PLAN}
    assert "plan-worker0.json" in caplog.text
    assert "costs-worker0.json" in caplog.text


def test_a_folder_that_cannot_be_written_is_told(caplog):
    kept_plans.save(pathlib.Path("/dev/null/plans"), {0: _PLAN}, {})
    assert "not kept in /dev/null/plans" in caplog.text
