import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm import proposal, timeline
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan
from tf_dynacomm.profiling import link, measure
from tf_dynacomm.schedulers import dynacomm, sequential


def _costs(rate, seed=0, layers=6):
    random = np.random.default_rng(seed)
    size, forward_s, backward_s = random.random((3, layers))
    return LayerCosts(size / rate, forward_s, backward_s, size / rate, overhead_s=0.05)


def _proposed(costs, current, plan, outside_s=0.5):
    rates = link.Link(0.1, 1e6), link.Link(0.2, 2e6)
    measurement = measure.Measurement(costs, *rates, 1.0, 0.75, 8, {})
    return proposal.WorkerProposal(current, plan, measurement, outside_s)


def test_what_lies_outside_the_model_is_part_of_a_predicted_step():
    costs = _costs(1.0)
    plan = dynacomm.schedule(costs)
    proposed = _proposed(costs, plan, plan)
    assert proposed.predicted_s(plan) == timeline.simulate(costs, plan).iteration_s + 0.5
    assert proposed.saved_s == 0.0


def test_the_hidden_share_is_that_of_an_unscheduled_step():
    costs = LayerCosts([1, 1], [1, 1], [1, 1], [1, 1], overhead_s=0)
    plan = Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)])
    proposed = _proposed(costs, plan, plan, outside_s=2.0)
    assert proposed.hidden_share == pytest.approx(1 - (3 + 3 + 2) / (4 + 4 + 2))
    assert _proposed(costs, plan, sequential.schedule(costs)).hidden_share == 0.0


def test_workers_that_differ_get_plans_of_their_own():
    costs = {0: _costs(0.3), 1: _costs(1.0)}
    plans = proposal.choose_plans(costs, dynacomm.schedule, 0.01)
    assert plans == {w: dynacomm.schedule(c) for w, c in costs.items()}
    assert plans[0] != plans[1]


def test_workers_that_differ_by_noise_share_a_plan():
    costs = {w: _costs(1.0 + 1e-4 * w) for w in range(4)}
    assert len(set(proposal.choose_plans(costs, dynacomm.schedule, 0.01).values())) == 1


@given(st.integers(0, 100), st.lists(st.floats(0.1, 10.0), min_size=1, max_size=5))
def test_nobody_gives_up_more_than_the_least_gain_for_a_common_plan(seed, rates):
    costs = {w: _costs(rate, seed) for w, rate in enumerate(rates)}
    plans = proposal.choose_plans(costs, dynacomm.schedule, 0.05)
    assert plans.keys() == costs.keys()
    for worker, plan in plans.items():
        own_s = timeline.simulate(costs[worker], dynacomm.schedule(costs[worker])).iteration_s
        assert own_s >= 0.95 * timeline.simulate(costs[worker], plan).iteration_s - 1e-9


def test_a_gain_below_zero_is_none_to_wait_for():
    costs = {0: _costs(1.0), 1: _costs(1.0)}
    assert len(proposal.choose_plans(costs, dynacomm.schedule, -1.0)) == 2


def test_a_known_plan_is_kept_where_it_is_about_as_good():
    known = dynacomm.schedule(_costs(1.0))
    for rate, is_kept in ((1.001, True), (0.1, False)):
        plans = proposal.choose_plans({0: _costs(rate)}, dynacomm.schedule, 0.01, [known])
        assert (plans[0] == known) == is_kept
