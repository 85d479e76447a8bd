import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm import schedulers
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import credits, dynacomm, exhaustive, makespan


def _forward_s(costs, plan):
    return makespan.forward_s(costs, [last for _, last in plan.pull], plan.credit)


def _random_costs(random, num_layers):
    vectors = random.lognormal(size=(4, num_layers))
    return LayerCosts(*vectors, overhead_s=random.choice([0.1, 0.5, 1.0, 3.0]))


def test_plan_carries_what_it_is_given():
    costs = LayerCosts([1, 1], [1, 1], [1, 1], [1, 1], 0.1, names=["a", "b"])
    plan = credits.plan(costs, lambda _: [1, 2], [2], "mine", 3)
    assert (plan.pull, plan.push) == (((1, 1), (2, 2)), ((1, 2),))
    assert (plan.names, plan.scheduler, plan.credit) == (("a", "b"), "mine", 3)


def test_round_trips_are_hidden_by_segments_in_flight():
    costs = LayerCosts(*np.full((4, 8), 0.1), overhead_s=1)
    assert schedulers.get("layer_by_layer")(costs, credit=None).credit == credits.MAX_CREDIT


def test_of_equally_good_credits_the_least_is_taken():
    costs = LayerCosts(*np.ones((4, 8)), overhead_s=0)
    assert schedulers.get("sequential")(costs, credit=None).credit == 1


@pytest.mark.parametrize("name", schedulers.names())
@hypothesis.given(costs=st.from_type(LayerCosts))
@hypothesis.settings(max_examples=30)
def test_no_credit_is_better_than_the_one_chosen(name, costs):
    hypothesis.assume(len(costs) <= 6)
    schedule = schedulers.get(name)
    chosen_s = _forward_s(costs, schedule(costs, credit=None))
    for credit in range(1, credits.MAX_CREDIT + 1):
        assert chosen_s <= _forward_s(costs, schedule(costs, credit=credit))


@hypothesis.given(st.from_type(LayerCosts), st.integers(2, 4))
@hypothesis.settings(max_examples=50)
def test_exhaustive_search_is_never_worse(costs, credit):
    hypothesis.assume(len(costs) <= 7)
    best_s = _forward_s(costs, exhaustive.schedule(costs, credit=credit))
    for name in schedulers.names():
        assert best_s <= _forward_s(costs, schedulers.get(name)(costs, credit=credit))


def test_cuts_for_several_in_flight_are_near_the_best():
    random = np.random.default_rng(0)
    excess = []
    for _ in range(60):
        costs, credit = _random_costs(random, random.integers(4, 9)), int(random.integers(2, 4))
        best_s = _forward_s(costs, exhaustive.schedule(costs, credit=credit))
        excess.append(_forward_s(costs, dynacomm.schedule(costs, credit=credit)) / best_s - 1)
    assert np.mean(excess) < 0.01
    assert np.mean(np.array(excess) < 1e-12) > 0.8


@hypothesis.given(st.from_type(LayerCosts), st.integers(2, 4))
@hypothesis.settings(max_examples=50)
def test_cuts_are_at_least_as_good_as_those_they_start_from(costs, credit):
    hypothesis.assume(len(costs) <= 8)
    found_s = _forward_s(costs, dynacomm.schedule(costs, credit=credit))
    one = dynacomm.schedule(costs)
    assert found_s <= makespan.forward_s(costs, [last for _, last in one.pull], credit)
    assert found_s <= makespan.forward_s(costs, [len(costs)], credit)
