import dataclasses

import pytest

from tf_dynacomm import policy, proposal, trial
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan
from tf_dynacomm.profiling import link, measure

_SLOW = Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)])
_FAST = Plan([(1, 2)], [(1, 2)])


def _costs(overhead_s):
    """Costs under which `_FAST` takes `overhead_s` - 0.1 s less than `_SLOW`, each way."""
    return LayerCosts([0, 0], [0.1, 0.1], [0.1, 0.1], [0, 0], overhead_s=overhead_s)


def _proposal(plan, current=_SLOW, overhead_s=0.2, workers=1):
    rates = link.Link(0.1, 1e6), link.Link(0.2, 2e6)
    measurement = measure.Measurement(_costs(overhead_s), *rates, 1.0, 0.75, 8, {})
    proposed = proposal.WorkerProposal(current, plan, measurement, outside_s=0.5)
    return proposal.Proposal(None, dict.fromkeys(range(workers), proposed))


def _decide(made, min_gain=0.01, remaining_steps=None, loading_s=1.0):
    return policy.Policy(min_gain, False).decide(made, loading_s, remaining_steps)


def _verdict(plan, stays, worker=0, step_s=1.0):
    return trial.Verdict(worker, plan, _SLOW, step_s, 1.0, stays)


def test_a_faster_plan_is_taken():
    decision = _decide(_proposal(_FAST))
    assert (decision.plans, decision.reason) == ({0: _FAST}, None)


def test_the_best_plan_is_kept():
    decision = _decide(_proposal(_FAST, current=_FAST))
    assert (decision.plans, decision.reason) == ({}, "the plan in force is the best one")


@pytest.mark.parametrize(("overhead_s", "taken"), [(0.110, True), (0.104, False)])
def test_a_gain_of_less_than_one_percent_is_noise(overhead_s, taken):
    """The steps take 1.14 s and 1.116 s; `_FAST` saves 0.020 s and 0.008 s of them."""
    decision = _decide(_proposal(_FAST, overhead_s=overhead_s))
    assert bool(decision.plans) == taken
    assert decision.reason == (None if taken else "less than 1% would be gained")


@pytest.mark.parametrize(("min_gain", "taken"), [(0.1, True), (0.2, False)])
def test_the_gain_asked_for_can_be_set(min_gain, taken):
    """`_FAST` saves 0.2 s of 1.5 s."""
    assert bool(_decide(_proposal(_FAST), min_gain).plans) == taken


def test_the_starting_plan_yields_to_the_first_one_from_a_trace():
    starting = dataclasses.replace(_FAST, scheduler="starting")
    planned = dataclasses.replace(_SLOW, scheduler="sequential")
    assert _decide(_proposal(planned, current=starting)).plans == {0: planned}


@pytest.mark.parametrize(("remaining_steps", "taken"), [(6, True), (4, False), (0, False)])
def test_a_plan_that_does_not_pay_any_more_is_not_loaded(remaining_steps, taken):
    """`_FAST` saves 0.2 s a step, and takes 1 s to load."""
    decision = _decide(_proposal(_FAST, workers=2), remaining_steps=remaining_steps)
    assert bool(decision.plans) == taken
    if not taken:
        assert "less than the 1 s that it takes to load" in decision.reason


def test_below_a_gain_of_zero_every_plan_is_taken():
    decision = _decide(_proposal(_SLOW, current=_FAST), min_gain=-1.0, remaining_steps=0)
    assert decision.plans == {0: _SLOW}


def test_predictions_are_those_of_the_plans_decided_on():
    decision = _decide(_proposal(_FAST))
    assert decision.predicted_before_s() == pytest.approx(2 * (0.2 + 0.2 + 0.1) + 0.5)
    assert decision.predicted_s() == pytest.approx(2 * (0.2 + 0.2) + 0.5)


@pytest.fixture
def trying():
    """A policy that may run steps as stock."""
    return policy.Policy(0.01, may_run_as_stock=True)


def test_stock_is_tried_where_planning_hides_little(trying):
    assert trying.decide(_proposal(_FAST, current=_FAST), 1.0).plans == {0: None}


def test_stock_is_not_tried_in_the_place_of_a_better_plan(trying):
    assert trying.decide(_proposal(_FAST), 1.0).plans == {0: _FAST}


def test_stock_is_not_tried_where_planning_hides_much(trying):
    costs = LayerCosts([1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], overhead_s=0)
    plan = Plan([(1, 1), (2, 2), (3, 3)], [(3, 3), (2, 2), (1, 1)])
    measurement = measure.Measurement(costs, None, None, 1.0, 0.75, 8, {})
    proposed = proposal.WorkerProposal(plan, plan, measurement, 0.0)
    assert trying.decide(proposal.Proposal(None, {0: proposed}), 1.0).plans == {}


def test_stock_is_not_tried_at_the_end_of_a_training(trying):
    assert trying.decide(_proposal(_FAST, current=_FAST), 1.0, remaining_steps=50).plans == {}


def test_stock_that_was_slower_is_not_tried_again_soon(trying):
    made = _proposal(_FAST, current=_FAST)
    assert trying.decide(made, 1.0).plans == {0: None}
    trying.learn([_verdict(None, stays=False)])
    assert [trying.decide(made, 1.0).plans for _ in range(11)] == [{}] * 10 + [{0: None}]


def test_a_plan_that_was_slower_is_not_proposed_again_soon(trying):
    trying.learn([_verdict(_FAST, stays=False)])
    decision = trying.decide(_proposal(_FAST, workers=2), 1.0)
    assert decision.plans == {0: None, 1: _FAST}


def test_stock_is_left_when_its_pace_changes(trying):
    trying.learn([_verdict(None, stays=True, step_s=1.0)])
    assert trying.plan_instead_of_stock(0, 1.2) is None
    assert trying.plan_instead_of_stock(1, 9.0) is None
    assert trying.plan_instead_of_stock(0, 1.3) == _SLOW
    assert trying.plan_instead_of_stock(0, 9.0) is None
