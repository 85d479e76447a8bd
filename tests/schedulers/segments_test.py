import hypothesis
import pytest
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import segments


def test_ends_become_segments():
    assert segments.forward([2, 3, 8]) == ((1, 2), (3, 3), (4, 8))
    assert segments.backward([2, 3, 8]) == ((4, 8), (3, 3), (1, 2))


def test_plan_carries_what_it_is_given():
    costs = LayerCosts([1, 1], [1, 1], [1, 1], [1, 1], 0.1, names=["a", "b"])
    plan = segments.plan(costs, [1, 2], [2], "mine", credit=3)
    assert (plan.pull, plan.push) == (((1, 1), (2, 2)), ((1, 2),))
    assert (plan.names, plan.scheduler, plan.credit) == (("a", "b"), "mine", 3)


def test_wait_of_one_segment_is_its_arrival():
    assert makespan.idle_s([2], [3, 4], [1, 1], 0.5) == 7.5


def test_computation_hides_later_segments():
    # The second arrives at 1 + 7; by then layer 1, which came at 3.5, has been computed for 2.
    assert makespan.idle_s([1, 2], [3, 4], [2, 1], 0.5) == 6
    assert makespan.idle_s([1, 2], [3, 4], [9, 1], 0.5) == 3.5


@hypothesis.given(st.from_type(LayerCosts), st.data())
def test_waits_are_those_of_playing_the_step(costs, data):
    hypothesis.assume(max(costs.pull_s.max(), costs.forward_s.max(), costs.overhead_pull_s) < 1e9)
    ends = sorted(data.draw(st.sets(st.integers(1, len(costs)))) | {len(costs)})
    arrival_s = worker_s = waited_s = 0.0
    for first, last in segments.forward(ends):
        arrival_s += costs.overhead_pull_s + costs.pull_s[first - 1 : last].sum()
        waited_s += max(arrival_s - worker_s, 0)
        worker_s = max(arrival_s, worker_s) + costs.forward_s[first - 1 : last].sum()
    idle_s = makespan.idle_s(ends, costs.pull_s, costs.forward_s, costs.overhead_pull_s)
    assert idle_s == pytest.approx(waited_s, rel=1e-9, abs=1e-9)
