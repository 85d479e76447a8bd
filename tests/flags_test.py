"""Tests of `tf_dynacomm.flags`."""

import pytest
from absl import flags

from tf_dynacomm import flags as strategy_flags
from tf_dynacomm import plan as plan_lib


def _parsed(*argv, prefix="") -> strategy_flags.StrategyFlags:
    values = flags.FlagValues()
    defined = strategy_flags.define(prefix, values)
    values(["program", *argv])
    return defined


def test_defaults():
    defined = _parsed()

    assert defined.strategy_kwargs() == {
        "scheduler": "dynacomm",
        "plan": None,
        "connect_timeout_s": 60.0,
    }
    assert defined.callback_kwargs() == {"logdir": None, "replan_every": None}


def test_values_are_passed_on():
    defined = _parsed(
        "--scheduler=sequential", "--connect_timeout=5", "--replan_every=7", "--logdir=x"
    )

    assert defined.strategy_kwargs()["scheduler"] == "sequential"
    assert defined.strategy_kwargs()["connect_timeout_s"] == defined.connect_timeout_s == 5.0
    assert defined.callback_kwargs() == {"logdir": "x", "replan_every": 7}
    assert defined.logdir == "x"


def test_plan_file_is_read(tmp_path):
    plan = plan_lib.Plan(pull=[(1, 2)], push=[(2, 2), (1, 1)])
    plan.save(tmp_path / "plan.json")

    assert _parsed(f"--plan={tmp_path}/plan.json").strategy_kwargs()["plan"] == plan


def test_missing_plan_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        _parsed(f"--plan={tmp_path}/nowhere.json").strategy_kwargs()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--scheduler=best", "one of <.*dynacomm.*sequential.*stock"),
        ("--replan_every=0", "replan_every"),
        ("--connect_timeout=-1", "connect_timeout"),
        ("--connect_timeout=nan", "must be a finite number of seconds"),
    ],
)
def test_wrong_values_are_refused(argument, message):
    with pytest.raises(flags.IllegalFlagValueError, match=message):
        _parsed(argument)


def test_prefix_keeps_clear_of_other_flags():
    values = flags.FlagValues()
    flags.DEFINE_string("logdir", "theirs", "", flag_values=values)
    defined = strategy_flags.define("dynacomm_", values)
    values(["program", "--dynacomm_logdir=ours"])

    assert (values["logdir"].value, defined.logdir) == ("theirs", "ours")


def test_clash_is_an_error():
    values = flags.FlagValues()
    strategy_flags.define(flag_values=values)

    with pytest.raises(flags.DuplicateFlagError):
        strategy_flags.define(flag_values=values)
