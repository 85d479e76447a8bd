import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm.profiling import attribution, compute, trace

_MS = 1e-3


@pytest.fixture(scope="module")
def chain(make_chain):
    return make_chain([10, 10, 10])


@pytest.fixture(scope="module")
def times_of(chain):
    """Adds up (node, start in ms, end in ms) operations."""
    parts = attribution.attribute(chain.graph, chain.layers)
    names = compute.NameTable(chain.graph)

    def times(*operations, arrived_ms=None):
        found = [trace.Operation(n, a * _MS, b * _MS) for n, a, b in operations]
        arrived_s = None if arrived_ms is None else np.array(arrived_ms) * _MS
        return compute.layer_times(found, names, parts, 3, arrived_s)

    return times


def _ms(seconds):
    return [round(s / _MS, 9) for s in seconds]


def test_operations_add_up_by_layer_and_phase(times_of):
    times = times_of(
        ("fwd_1", 0, 1), ("fwd_2", 1, 3), ("fwd_3", 3, 6), ("dw_3", 6, 10), ("dy_2", 10, 15),
        ("dw_2", 15, 21), ("dy_1", 21, 28), ("dw_1", 28, 36),
    )  # fmt: skip
    assert _ms(times.forward_s) == [1, 2, 3]
    assert _ms(times.backward_s) == [15, 11, 4]


def test_a_moment_counts_for_the_earliest_part_that_is_active(times_of):
    times = times_of(("fwd_2", 0, 10), ("fwd_1", 2, 5), ("dw_3", 4, 12))
    assert _ms(times.forward_s) == [3, 7, 0]
    assert _ms(times.backward_s) == [0, 0, 2]


def test_backward_goes_from_the_last_layer_down(times_of):
    times = times_of(("dw_1", 0, 10), ("dw_3", 2, 5))
    assert _ms(times.backward_s) == [7, 0, 3]


def test_parallel_operations_of_one_layer_count_once(times_of):
    times = times_of(("fwd_1", 0, 4), ("fwd_1", 1, 3), ("fwd_1", 2, 6))
    assert _ms(times.forward_s) == [6, 0, 0]


@pytest.mark.parametrize(("pause_ms", "counted_ms"), [(0.09, 2.09), (0.11, 2.0)])
def test_a_short_pause_counts_for_what_follows(times_of, pause_ms, counted_ms):
    times = times_of(("fwd_1", 0, 1), ("fwd_2", 1 + pause_ms, 3 + pause_ms))
    assert _ms(times.forward_s) == [1, counted_ms, 0]


@pytest.mark.parametrize(("arrived_ms", "counted_ms"), [(0.5, 4.0), (1.0, 4.0), (1.5, 2.0)])
def test_a_pause_counts_unless_parameters_were_waited_for(times_of, arrived_ms, counted_ms):
    times = times_of(("fwd_1", 0, 1), ("fwd_2", 3, 5), arrived_ms=[0, arrived_ms, 9])
    assert _ms(times.forward_s) == [1, counted_ms, 0]


def test_pauses_on_the_way_back_wait_for_no_parameters(times_of):
    times = times_of(("fwd_3", 0, 1), ("dw_3", 3, 4), ("dw_1", 7, 8), arrived_ms=[0, 0, 0])
    assert _ms(times.backward_s) == [4, 0, 3]


def test_operations_that_need_no_layer_are_left_out(times_of):
    times = times_of(("x", 0, 5), ("fwd_1", 5, 6))
    assert _ms(times.forward_s) == [1, 0, 0]
    assert times.matched_s == pytest.approx(6 * _MS)


def test_unknown_operations_count_for_the_part_before_them(times_of):
    times = times_of(("unknown", 0, 1), ("fwd_2", 1, 2), ("x", 2, 3), ("unknown", 3, 5))
    assert _ms(times.forward_s) == [0, 3, 0]
    assert (times.matched_s, times.total_s) == pytest.approx((2 * _MS, 5 * _MS))


def test_packing_is_known(times_of):
    times = times_of(("fwd_1", 0, 1), ("dynacomm/push_1/ps0/float32/pack", 1, 2))
    assert times.matched_s == times.total_s == pytest.approx(2 * _MS)


def test_a_step_without_operations_takes_no_time(times_of):
    times = times_of()
    assert _ms(times.forward_s) == _ms(times.backward_s) == [0, 0, 0]
    assert (times.matched_s, times.total_s) == (0, 0)


_INTERVALS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 50), st.integers(0, 5)), max_size=30
)


def _seconds(intervals):
    pieces = compute.first_come([(a * _MS, (a + d) * _MS, r) for a, d, r in intervals])
    return compute.seconds_of(pieces, 6)


@given(_INTERVALS)
def test_pieces_come_in_order_and_do_not_overlap(intervals):
    pieces = compute.first_come([(a * _MS, (a + d) * _MS, r) for a, d, r in intervals])
    for before, after in itertools.pairwise(pieces):
        assert before.end_s <= after.start_s
        assert before.rank != after.rank or before.end_s < after.start_s


@given(_INTERVALS)
def test_layers_add_up_to_the_time_in_which_anything_computes(intervals):
    """Intervals of whole ms: pauses between them are none, or too long to count."""
    seconds = _seconds(intervals)
    busy_ms = {ms for start, length, _ in intervals for ms in range(start, start + length)}
    assert seconds.sum() == pytest.approx(len(busy_ms) * _MS)


@given(_INTERVALS)
def test_each_moment_goes_to_the_lowest_active_rank(intervals):
    seconds = _seconds(intervals)
    expected_ms = np.zeros(6)
    for ms in range(250):
        active = [r for start, length, r in intervals if start <= ms < start + length]
        if active:
            expected_ms[min(active)] += 1
    np.testing.assert_allclose(seconds, expected_ms * _MS, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("fwd_1", "fwd_1"),
        ("ArithmeticOptimizer/fwd_1", "fwd_1"),
        ("ConstantFolding/ArithmeticOptimizer/fwd_1", "fwd_1"),
        ("fwd_1/eigen_filter", "fwd_1"),
        ("elsewhere", None),
    ],
)
def test_names_in_a_trace_are_found_in_the_graph(chain, name, node):
    assert compute.NameTable(chain.graph).node(name) == node
