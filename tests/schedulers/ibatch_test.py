import hypothesis
import numpy as np
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import ibatch, makespan, segments

_PASSES = (ibatch._pulls_from_first, ibatch._pulls_from_last)


def _costs(transfer_s, compute_s, overhead_s=0.0):
    return LayerCosts(transfer_s, compute_s, compute_s, transfer_s, overhead_s)


def _passes(costs):
    sums = segments.prefix_sums(costs.pull_s), segments.prefix_sums(costs.forward_s)
    return [one_pass(*sums, costs.overhead_pull_s) for one_pass in _PASSES]


def test_next_pull_is_what_can_be_transferred_during_the_computation():
    first, _ = _passes(_costs([1, 1, 1, 1, 1, 1], [2, 1, 3, 1, 1, 1]))
    assert first == [1, 3, 6]


def test_overhead_leaves_room_for_less():
    first, _ = _passes(_costs([1, 1, 1, 1, 1, 1], [2, 1, 3, 1, 1, 1], overhead_s=1))
    assert first == [1, 2, 3, 5, 6]


def test_opposite_pass_begins_with_the_last_layer():
    _, last = _passes(_costs([1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 2]))
    assert last == [1, 3, 5, 6]


@hypothesis.given(st.from_type(LayerCosts))
def test_better_pass_is_used(costs):
    best_s = min(makespan.forward_s(costs, ends) for ends in _passes(costs))
    assert makespan.forward_s(costs, ibatch.pull_ends(costs)) == best_s


def test_next_push_is_what_can_be_computed_during_the_transfer():
    costs = _costs([1, 1, 1, 1, 1, 2], [1, 1, 1, 1, 1, 1])
    sums = segments.prefix_sums(costs.push_s), segments.prefix_sums(costs.backward_s)
    assert ibatch._pushes(*sums, 0.0, until=5) == [1, 3, 5, 6]
    assert ibatch._pushes(*sums, 0.0, until=0) == [6]


@hypothesis.given(st.from_type(LayerCosts))
def test_best_first_push_is_found(costs):
    sums = segments.prefix_sums(costs.push_s), segments.prefix_sums(costs.backward_s)
    best_s = min(
        makespan.backward_s(costs, ibatch._pushes(*sums, costs.overhead_push_s, until))
        for until in range(len(costs))
    )
    assert makespan.backward_s(costs, ibatch.push_ends(costs)) == best_s


def test_one_layer_is_one_segment():
    plan = ibatch.schedule(_costs(np.ones(1), np.ones(1)))
    assert plan.pull == plan.push == ((1, 1),)
