import dataclasses

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm import schedulers
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import apply_stage, dynacomm, exhaustive, makespan, segments


def _applied(costs):
    """The same pushes, whose gradients take time to apply: what `forward_s` happens to be."""
    return dataclasses.replace(costs, apply_s=costs.forward_s)


def _push_ends(plan):
    return [last for _, last in plan.push[::-1]]


@hypothesis.settings(max_examples=2_000)
@hypothesis.given(st.from_type(LayerCosts))
def test_dynacomm_equals_exhaustive_search_to_the_last_bit(costs):
    costs = _applied(costs)
    found = _push_ends(dynacomm.schedule(costs))
    best = exhaustive.best_push_ends(costs)
    assert makespan.backward_s(costs, found) == makespan.backward_s(costs, best)
    assert len(found) == len(best)


@hypothesis.given(st.from_type(LayerCosts))
def test_no_scheduler_is_better(costs):
    costs = _applied(costs)
    best_s = makespan.backward_s(costs, _push_ends(dynacomm.schedule(costs)))
    for name in schedulers.names():
        plan = schedulers.get(name)(costs)
        assert best_s <= makespan.backward_s(costs, _push_ends(plan))


@hypothesis.given(st.from_type(LayerCosts), st.data())
def test_where_applying_costs_nothing_the_makespan_is_as_without(costs, data):
    hypothesis.assume(max(costs.push_s.max(), costs.backward_s.max(), *costs.overhead_s) < 1e9)
    ends = sorted(data.draw(st.sets(st.integers(1, len(costs)))) | {len(costs)})
    applied_s = apply_stage.Pushes(costs).makespan_s(ends)
    assert applied_s == pytest.approx(makespan.backward_s(costs, ends), rel=1e-12)


@hypothesis.given(st.from_type(LayerCosts), st.data())
def test_makespan_is_that_of_playing_the_step(costs, data):
    costs = _applied(costs)
    hypothesis.assume(max(costs.push_s.max(), costs.apply_s.max(), *costs.overhead_s) < 1e9)
    ends = sorted(data.draw(st.sets(st.integers(1, len(costs)))) | {len(costs)})
    link_s = ps_s = 0.0
    for first, last in segments.backward(ends):
        layers = slice(first - 1, last)
        ready_s = costs.backward_s[first - 1 :].sum()
        link_s = max(link_s, ready_s) + costs.overhead_push_s + costs.push_s[layers].sum()
        ps_s = max(ps_s, link_s) + costs.apply_s[layers].sum()
    assert makespan.backward_s(costs, ends) == pytest.approx(ps_s, rel=1e-9)


def test_last_push_is_kept_small_where_it_takes_long_to_apply():
    costs = LayerCosts(*np.ones((4, 3)), overhead_s=1, apply_s=[4, 4, 4])
    # Alone, layer 3 arrives at 3 and keeps the PS busy until 15, while the other two arrive.
    assert dynacomm.schedule(costs).push == ((3, 3), (1, 2))
    costs = dataclasses.replace(costs, apply_s=None)
    assert dynacomm.schedule(costs).push == ((3, 3), (1, 2))


@pytest.mark.parametrize("num_layers", [1, 50, 160])
def test_start_makes_no_difference(num_layers):
    random = np.random.default_rng(num_layers)
    costs = LayerCosts(
        *random.exponential(size=(4, num_layers)), 0.3, random.exponential(size=num_layers)
    )
    found = apply_stage.best_ends(costs, [num_layers])
    assert found == apply_stage.best_ends(costs, list(range(1, num_layers + 1)))
