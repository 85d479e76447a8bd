import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm.runtime.starting_plan import starting_plan

_SIZES = st.lists(st.integers(1, 10**7), min_size=1, max_size=60)


def _plan(sizes_bytes, push_bytes=None):
    names = [f"layer_{i}" for i in range(len(sizes_bytes))]
    return starting_plan(sizes_bytes, push_bytes or sizes_bytes, names)


@given(_SIZES)
def test_it_has_every_layer_once_in_at_most_16_segments(sizes_bytes):
    plan = _plan(sizes_bytes)
    for segments in (plan.pull, plan.push[::-1]):
        layers = [layer for a, b in segments for layer in range(a, b + 1)]
        assert layers == list(range(1, len(sizes_bytes) + 1))
        assert len(segments) <= 16


@given(_SIZES)
def test_no_segment_is_longer_than_its_share_and_a_layer(sizes_bytes):
    share = sum(sizes_bytes) / min(16, len(sizes_bytes))
    for a, b in _plan(sizes_bytes).pull:
        assert sum(sizes_bytes[a - 1 : b]) <= share + max(sizes_bytes)


def test_equal_layers_make_equal_segments():
    assert {b - a + 1 for a, b in _plan([100] * 64).pull} == {4}


def test_few_layers_are_segments_of_their_own():
    plan = _plan([10, 10, 10])
    assert plan.pull == ((1, 1), (2, 2), (3, 3))
    assert plan.push == ((3, 3), (2, 2), (1, 1))


def test_small_layers_go_with_each_other():
    assert _plan([1, 1, 1, 1, 1000]).pull == ((1, 4), (5, 5))


def test_pushes_are_cut_by_their_own_bytes():
    plan = _plan([10, 10, 10, 10], [0, 0, 10, 10])
    assert plan.pull == ((1, 1), (2, 2), (3, 3), (4, 4))
    assert plan.push == ((4, 4), (1, 3))


def test_layers_that_move_nothing_make_no_segments():
    frozen = _plan([10] * 6, [0, 0, 10, 0, 10, 0])
    assert frozen.push == ((5, 6), (1, 4))
    assert _plan([0, 10, 0, 10]).pull == ((1, 3), (4, 4))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40).filter(any))
def test_every_segment_moves_something(push_bytes):
    segments = _plan([1] * len(push_bytes), push_bytes).push
    assert all(sum(push_bytes[a - 1 : b]) for a, b in segments)


@pytest.mark.parametrize("num_layers", [1, 5])
def test_a_step_that_trains_nothing_has_no_push_segments(num_layers):
    plan = _plan([10] * num_layers, [0] * num_layers)
    assert plan.push == ()
    assert len(plan.pull) == num_layers


def test_it_tells_its_layers_and_where_it_comes_from():
    plan = starting_plan([1, 2], [1, 2], ["a", "b"])
    assert tuple(plan.names) == ("a", "b")
    assert plan.scheduler == "starting"


def test_layers_of_unequal_bytes_give_transfers_of_several_sizes():
    sizes_bytes = np.arange(1, 101)
    moved = {sum(sizes_bytes[a - 1 : b]) for a, b in _plan(sizes_bytes.tolist()).pull}
    assert len(moved) > 1
