import dataclasses

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm import timeline
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan
from tf_dynacomm.schedulers import credits, dynacomm, makespan

_SECONDS = st.floats(1e-6, 1e3) | st.just(0.0) | st.integers(0, 5).map(float)


@st.composite
def _costs(draw):
    count = draw(st.integers(1, 8))
    vector = st.lists(_SECONDS, min_size=count, max_size=count)
    return LayerCosts(*(draw(vector) for _ in range(4)), draw(st.tuples(_SECONDS, _SECONDS)))


@st.composite
def _steps(draw):
    costs = draw(_costs())
    inner = st.sets(st.integers(1, len(costs)))
    pull, push = (sorted(draw(inner) | {len(costs)}) for _ in range(2))
    return timeline.simulate(costs, credits.plan(costs, lambda _: pull, push, "any", 1))


def _spans(spans):
    return [dataclasses.astuple(span) for span in spans]


@pytest.fixture
def step():
    """Two layers, pulled apart and pushed apart."""
    costs = LayerCosts([3, 1], [2, 2], [4, 2], [3, 1], overhead_s=0.5)
    return timeline.simulate(costs, Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)]))


def test_pulls_follow_each_other(step):
    assert _spans(step.forward.transfers) == [(0, 3.5, 1, 1), (3.5, 5, 2, 2)]


def test_layers_are_computed_when_they_have_arrived(step):
    assert _spans(step.forward.computation) == [(3.5, 5.5, 1, 1), (5.5, 7.5, 2, 2)]
    assert step.forward_s == 7.5


def test_backward_begins_where_forward_ends(step):
    assert _spans(step.backward.computation) == [(7.5, 9.5, 2, 2), (9.5, 13.5, 1, 1)]


def test_gradients_are_pushed_when_they_are_ready(step):
    assert _spans(step.backward.transfers) == [(9.5, 11, 2, 2), (13.5, 17, 1, 1)]
    assert step.backward_s == 9.5
    assert step.iteration_s == 17


def test_portions(step):
    assert step.forward.portions == timeline.Portions(2.5, 1.5, 3.5)
    assert step.backward.portions == timeline.Portions(4.5, 1.5, 3.5)
    assert step.portions == timeline.Portions(7, 3, 7)


def test_push_waits_for_the_link():
    costs = LayerCosts([0, 0], [1, 1], [1, 1], [1, 5], overhead_s=0)
    step = timeline.simulate(costs, Plan([(1, 2)], [(2, 2), (1, 1)]))
    assert _spans(step.backward.transfers) == [(3, 8, 2, 2), (8, 9, 1, 1)]


def test_step_that_trains_nothing_has_no_backward_phase():
    costs = LayerCosts([1, 1], [1, 1], [1, 1], [1, 1], overhead_s=0)
    step = timeline.simulate(costs, Plan([(1, 2)], []))
    assert step.backward_s == 0
    assert step.backward.computation == step.backward.transfers == ()
    assert step.iteration_s == step.forward_s == 4


def test_plan_must_be_for_as_many_layers():
    costs = LayerCosts([1, 1], [1, 1], [1, 1], [1, 1], overhead_s=0)
    with pytest.raises(ValueError, match=r"^`plan` is for 3 layers, `costs` for 2\.$"):
        timeline.simulate(costs, Plan([(1, 3)], [(1, 3)]))


@hypothesis.given(_costs())
def test_makespan_is_to_the_last_bit_what_the_scheduler_found(costs):
    step = timeline.simulate(costs, dynacomm.schedule(costs))
    pull = costs.pull_s, costs.forward_s, costs.overhead_pull_s
    push = costs.push_s, costs.backward_s, costs.overhead_push_s
    forward_idle_s = makespan.idle_s(dynacomm.best_ends(*pull), *pull)
    backward_idle_s = makespan.idle_s(dynacomm.best_ends(*push), *push)
    assert step.forward_s == np.cumsum(costs.forward_s)[-1] + forward_idle_s
    assert step.backward_s == np.cumsum(costs.backward_s)[-1] + backward_idle_s


@hypothesis.given(_steps())
def test_forward_makespan_is_the_end_of_its_last_span_and_the_min_max_form(step):
    costs, ends = step.costs, [last for _, last in step.plan.pull]
    idle_s = makespan.idle_s(ends, costs.pull_s, costs.forward_s, costs.overhead_pull_s)
    assert step.forward_s == np.cumsum(costs.forward_s)[-1] + idle_s
    assert step.forward_s == step.forward.computation[-1].end_s


@hypothesis.given(_steps())
def test_backward_makespan_is_the_end_of_its_last_span(step):
    assert step.iteration_s == pytest.approx(step.backward.transfers[-1].end_s, rel=1e-12)


@hypothesis.given(_steps())
def test_spans_of_a_lane_are_in_order_and_apart(step):
    forward, backward = step.forward, step.backward
    for lane in (
        [*forward.transfers, *backward.transfers],
        [*forward.computation, *backward.computation],
    ):
        times_s = [time_s for span in lane for time_s in (span.start_s, span.end_s)]
        assert times_s == sorted(times_s)


@hypothesis.given(_steps())
def test_nothing_starts_before_what_it_needs(step):
    for pull in step.forward.transfers:
        for layer in step.forward.computation[pull.first - 1 : pull.last]:
            assert layer.start_s >= pull.end_s * (1 - 1e-12)
    ends_s = {span.first: span.end_s for span in step.backward.computation}
    for push in step.backward.transfers:
        assert push.start_s >= ends_s[push.first]


@hypothesis.given(_steps())
def test_spans_last_as_long_as_their_costs(step):
    costs, forward, backward = step.costs, step.forward, step.backward
    for spans, layer_s, overhead_s in (
        (forward.transfers, costs.pull_s, costs.overhead_pull_s),
        (forward.computation, costs.forward_s, 0),
        (backward.transfers, costs.push_s, costs.overhead_push_s),
        (backward.computation, costs.backward_s, 0),
    ):
        for span in spans:
            expected_s = overhead_s + layer_s[span.first - 1 : span.last].sum()
            near = pytest.approx(expected_s, abs=1e-12 * (1 + step.iteration_s))
            assert span.end_s - span.start_s == near


@hypothesis.given(_steps())
def test_portions_are_the_whole(step):
    for portions, whole_s in (
        (step.forward.portions, step.forward_s),
        (step.backward.portions, step.backward_s),
        (step.portions, step.iteration_s),
    ):
        assert min(dataclasses.astuple(portions)) >= 0
        assert sum(dataclasses.astuple(portions)) == pytest.approx(whole_s, rel=1e-12)


@hypothesis.given(_steps())
def test_overlap_is_what_transfers_and_computation_take_beyond_the_makespan(step):
    # Either the link or the worker is busy at any time.
    for phase in (step.forward, step.backward):
        spans = [*phase.transfers, *phase.computation]
        busy_s = sum(span.end_s - span.start_s for span in spans)
        near = pytest.approx(busy_s - phase.makespan_s, abs=1e-11 * (1 + step.iteration_s))
        assert phase.portions.overlap_s == near


@hypothesis.given(_costs(), st.integers(1, 4), st.randoms())
def test_credit_and_application_are_to_the_last_bit_what_schedulers_compare(costs, credit, random):
    costs = dataclasses.replace(costs, apply_s=random.choices([0.0, 0.5, 3.0], k=len(costs)))
    step = timeline.simulate(costs, dynacomm.schedule(costs, credit=credit))
    pull_ends = [last for _, last in step.plan.pull]
    push_ends = [last for _, last in step.plan.push[::-1]]
    assert step.forward_s == makespan.forward_s(costs, pull_ends, credit)
    assert step.backward_s == makespan.backward_s(costs, push_ends)
    assert step.forward_s == pytest.approx(step.forward.computation[-1].end_s, rel=1e-12)
    assert step.iteration_s == pytest.approx(step.backward.applies[-1].end_s, rel=1e-12)


def test_as_many_pulls_are_asked_for_as_there_is_credit():
    costs = LayerCosts(*[[1, 1, 1]] * 4, overhead_s=0.5)
    step = timeline.simulate(costs, Plan([(1, 1), (2, 2), (3, 3)], [(1, 3)], credit=2))
    assert _spans(step.forward.transfers) == [(0, 2.5, 1, 1), (0, 2.5, 2, 2), (2.5, 4, 3, 3)]
    # The worker computes from 2.5 to 5.5; the last pull comes at 4.
    assert dataclasses.astuple(step.forward.portions) == (1.5, 1.5, 2.5)


def test_later_pull_that_overtakes_counts_once():
    costs = LayerCosts([5, 1], [1, 1], [1, 1], [1, 1], overhead_s=0)
    step = timeline.simulate(costs, Plan([(1, 1), (2, 2)], [(1, 2)], credit=2))
    assert _spans(step.forward.transfers) == [(0, 6, 1, 1), (0, 2, 2, 2)]
    assert dataclasses.astuple(step.forward.portions) == (2, 0, 6)


def test_gradients_are_applied_one_segment_after_the_other():
    costs = LayerCosts([1, 1], [1, 1], [1, 1], [1, 1], overhead_s=0, apply_s=[2, 3])
    step = timeline.simulate(costs, Plan([(1, 2)], [(2, 2), (1, 1)]))
    assert _spans(step.backward.applies) == [(6, 9, 2, 2), (9, 11, 1, 1)]
    assert step.backward_s == 7
    assert step.backward.portions.communication_s == 5


def test_transfers_in_flight_together_overlap_computation_once():
    # They last from 0 to 2.5, from 0 to 4 and from 2.5 to 5.5; the worker computes from 2.5 to 7.5.
    costs = LayerCosts([1, 2, 2], [3, 1, 1], [1, 1, 1], [1, 1, 1], overhead_s=0.5)
    plan = Plan([(1, 1), (2, 2), (3, 3)], [(1, 3)], credit=2)
    assert timeline.simulate(costs, plan).forward.portions == timeline.Portions(2, 3, 2.5)
