import pytest

from tf_dynacomm import strategy
from tf_dynacomm.plan import Plan

_PLAN = Plan([(1, 1)], [(1, 1)])


def test_an_unknown_scheduler_is_told_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"`scheduler` \('fast'\) must be one of .*dynacomm, .*stock"
    ):
        strategy.DynaCommStrategy(None, scheduler="fast")


def test_a_plan_is_no_path():
    with pytest.raises(TypeError, match=r"`plan` \('plan\.json'\) must be a Plan; Plan\.load"):
        strategy.DynaCommStrategy(None, plan="plan.json")


def test_stock_follows_no_plan():
    with pytest.raises(ValueError, match="`plan` must be None"):
        strategy.DynaCommStrategy(None, plan=_PLAN, scheduler="stock")
