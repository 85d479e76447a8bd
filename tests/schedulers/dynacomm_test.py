import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm import schedulers, timeline
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import dynacomm, dynacomm_dp, exhaustive, makespan

_EXACT = (dynacomm, dynacomm_dp, exhaustive)


def _directions(costs):
    yield costs.pull_s, costs.forward_s, costs.overhead_pull_s
    yield costs.push_s, costs.backward_s, costs.overhead_push_s


# Each example is two instances: one of pulls, one of pushes.
@hypothesis.settings(max_examples=5_000)
@hypothesis.given(st.from_type(LayerCosts))
def test_exact_schedulers_agree_to_the_last_bit(costs):
    for instance in _directions(costs):
        decisions = [module.best_ends(*instance) for module in _EXACT]
        assert len({makespan.idle_s(ends, *instance) for ends in decisions}) == 1
        assert len({len(ends) for ends in decisions}) == 1


@pytest.mark.parametrize("num_layers", [50, 100, 200, 320])
def test_deep_networks_agree_to_the_last_bit(num_layers):
    random = np.random.default_rng(num_layers)
    instance = (*random.exponential(size=(2, num_layers)), random.exponential())
    fast, reference = dynacomm.best_ends(*instance), dynacomm_dp.best_ends(*instance)
    assert makespan.idle_s(fast, *instance) == makespan.idle_s(reference, *instance)
    assert len(fast) == len(reference)


@hypothesis.settings(max_examples=1_000)
@hypothesis.given(st.from_type(LayerCosts))
def test_no_scheduler_is_better(costs):
    best = timeline.simulate(costs, dynacomm.schedule(costs))
    for name in schedulers.names():
        other = timeline.simulate(costs, schedulers.get(name)(costs))
        assert best.forward_s <= other.forward_s
        assert best.backward_s <= other.backward_s


def test_layers_travel_apart_where_transfers_cost_nothing_besides():
    costs = LayerCosts([1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], overhead_s=0)
    plan = dynacomm.schedule(costs)
    assert plan.pull == ((1, 1), (2, 2), (3, 3))
    assert plan.push == ((3, 3), (2, 2), (1, 1))


def test_layers_travel_together_where_overhead_outweighs_them():
    costs = LayerCosts([1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], overhead_s=10)
    plan = dynacomm.schedule(costs)
    assert plan.pull == plan.push == ((1, 3),)


def test_layers_that_hide_behind_computation_travel_together():
    # The first arrives at 2; while it is computed, until 12, the other three come in one message.
    costs = LayerCosts([1, 2, 2, 2], [10, 1, 1, 1], [1, 1, 1, 10], [2, 2, 2, 1], overhead_s=1)
    assert dynacomm.schedule(costs).pull == ((1, 1), (2, 4))


def test_of_equally_good_plans_that_of_fewest_segments_is_taken():
    costs = LayerCosts([0, 0, 0], [1, 1, 1], [1, 1, 1], [0, 0, 0], overhead_s=0)
    plan = dynacomm.schedule(costs)
    assert plan.pull == plan.push == ((1, 3),)


@hypothesis.given(st.from_type(LayerCosts))
def test_pushes_are_pulls_played_backwards(costs):
    overheads = costs.overhead_s[::-1]
    swapped = LayerCosts(costs.push_s, costs.backward_s, costs.forward_s, costs.pull_s, overheads)
    plan, other = dynacomm.schedule(costs), dynacomm.schedule(swapped)
    assert (plan.pull, plan.push) == (other.push[::-1], other.pull[::-1])


@hypothesis.given(st.from_type(LayerCosts), st.integers(-20, 20))
def test_unit_of_time_does_not_matter(costs, exponent):
    hypothesis.assume(min(v.min(initial=1, where=v > 0) for v in _vectors(costs)) > 1e-290)
    scaled = [2.0**exponent * vector for vector in _vectors(costs)]
    other = LayerCosts(*scaled[:4], overhead_s=scaled[4])
    assert dynacomm.schedule(costs) == dynacomm.schedule(other)


def _vectors(costs):
    vectors = [costs.pull_s, costs.forward_s, costs.backward_s, costs.push_s]
    return [*vectors, np.array(costs.overhead_s)]
