import hypothesis
import pytest
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import makespan, segments


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


def _costs(**changes):
    return LayerCosts([3, 4], [2, 1], [4, 2], [5, 1], overhead_s=0.5, **changes)


def test_forward_is_computation_and_waits():
    assert makespan.forward_s(_costs(), [1, 2]) == 3.5 + 4.5 + 1
    assert makespan.forward_s(_costs(), [2]) == 7.5 + 3


def test_segments_in_flight_share_the_link():
    # Both bytes begin at 0.5; layer 1 has come at 0.5 + 6, layer 2 one second later.
    assert makespan.forward_s(_costs(), [1, 2], credit=2) == 6.5 + 2 + 1


def test_backward_ends_with_the_last_push():
    assert makespan.backward_s(_costs(), [1, 2]) == 6 + 0.5 + 5
    assert makespan.backward_s(_costs(), [2]) == 6 + 0.5 + 6


def test_step_ends_with_the_last_application():
    costs = _costs(apply_s=[1, 20])
    # Layer 2 arrives at 3.5 and is applied until 23.5; layer 1 has arrived by then.
    assert makespan.backward_s(costs, [1, 2]) == 24.5
    assert makespan.backward_s(costs, [2]) == 12.5 + 21
