import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm.profiling import trace, transfers

_NO_OFFSET = transfers.ClockOffset(0.0, -np.inf, np.inf)


def _node(way, number, ps=0, dtype="float32"):
    return f"dynacomm/{way}_{number}/ps{ps}/{dtype}/pack"


def _received(*entries):
    """What a host received: (node, requested, arrived) entries."""
    return trace.StepTrace(transfers={e[0]: trace.Transfer(*e) for e in entries})


def _worker(pulls, packs):
    """A worker's step: pulls as above, and when (node, start) packs began."""
    step = _received(*pulls)
    step.operations = [trace.Operation(node, start_s, start_s) for node, start_s in packs]
    return trace.HostTrace("worker", {7: step})


def _ps(*entries):
    return trace.HostTrace("ps", {7: _received(*entries)})


_PULLS = [(_node("pull", 1), 1.0, 3.0), (_node("pull", 2), 1.5, 3.5)]
_PACKS = [(_node("push", 1), 4.0), (_node("push", 2), 4.5)]
_PUSHES = [(_node("push", 1), 1.0, 6.0), (_node("push", 2), 1.0, 6.5)]


def _read(worker, ps, num_pulls=2, pushes=(1, 2), offsets=None):
    offsets = offsets or dict.fromkeys(ps, _NO_OFFSET)
    return transfers.step_transfers(7, worker, ps, offsets, num_pulls, pushes)


def test_a_pull_takes_from_the_arrival_of_the_one_before():
    step = _read(_worker(_PULLS, _PACKS), {"ps0": _ps(*_PUSHES)})
    np.testing.assert_array_equal(step.pull_s, [2.0, 0.5])
    assert step.requested_s == 1.0


def test_pushes_that_share_the_link_count_by_their_mean():
    step = _read(_worker(_PULLS, _PACKS), {"ps0": _ps(*_PUSHES)})
    assert step.push_samples([300, 100]) == [(200.0, 1.25)]


def test_pushes_between_which_the_link_is_free_count_alone():
    packs = [(_node("push", 1), 4.0), (_node("push", 2), 6.25)]
    step = _read(_worker(_PULLS, packs), {"ps0": _ps(*_PUSHES)})
    assert step.push_samples([300, 100]) == [(300.0, 2.0), (100.0, 0.25)]


def test_tensors_of_a_few_bytes_count_as_empty_pushes():
    worker = _worker(_PULLS, _PACKS)
    worker.steps[7].sent_s.update({"token": 3.0, "late": 5.0})
    received = _ps(*_PUSHES, ("token", 0.0, 3.5), ("late", 0.0, 6.0))
    assert _read(worker, {"ps0": received}).push_samples([300, 100])[:-1] == [(0.0, 0.5)]


def test_packing_that_the_profiler_left_out_begins_with_the_hand_over():
    worker = _worker(_PULLS, _PACKS[:1])
    worker.steps[7].sent_s = {_node("push", 1): 4.25, _node("push", 2): 4.75}
    step = _read(worker, {"ps0": _ps(*_PUSHES)})
    np.testing.assert_array_equal(step.push_ready_s, [4.0, 4.75])


def test_segments_come_in_the_order_of_their_numbers():
    numbers = range(1, 12)
    pulls = [(_node("pull", n), 0.0, float(n)) for n in reversed(numbers)]
    step = _read(_worker(pulls, _PACKS), {"ps0": _ps(*_PUSHES)}, num_pulls=11)
    np.testing.assert_array_equal(step.pull_arrived_s, list(numbers))


def test_a_segment_from_several_ps_tasks_ends_with_the_last():
    pulls = [
        (_node("pull", 1, ps=0), 1.0, 2.0),
        (_node("pull", 1, ps=1), 0.5, 4.0),
        (_node("pull", 1, ps=1, dtype="half"), 1.0, 3.0),
    ]
    packs = [(_node("push", 1, ps=0), 6.0), (_node("push", 1, ps=1), 5.0)]
    ps = {
        "ps0": _ps((_node("push", 1, ps=0), 1.0, 9.0)),
        "ps1": _ps((_node("push", 1, ps=1), 1.0, 8.0)),
    }
    step = _read(_worker(pulls, packs), ps, num_pulls=1, pushes=[1])
    np.testing.assert_array_equal(step.pull_s, [3.5])
    np.testing.assert_array_equal(step.push_arrived_s - step.push_ready_s, [3.0])


def test_what_travels_in_no_segment_is_left_out():
    extra = ("dynacomm/extra_worker_ps0_float32_2/pack", 0.0, 99.0)
    token = ("dynacomm/pull_1/arrived", 0.0, 99.0)
    plain = _read(_worker(_PULLS, _PACKS), {"ps0": _ps(*_PUSHES)})
    step = _read(_worker([*_PULLS, extra], _PACKS), {"ps0": _ps(*_PUSHES, token, extra)})
    assert step.requested_s == plain.requested_s
    np.testing.assert_array_equal(step.push_arrived_s, plain.push_arrived_s)


def test_push_arrivals_are_moved_to_the_clock_of_the_worker():
    offsets = {"ps0": transfers.ClockOffset(2.0, 1.0, 3.0)}
    step = _read(_worker(_PULLS, _PACKS), {"ps0": _ps(*_PUSHES)}, offsets=offsets)
    np.testing.assert_array_equal(step.push_arrived_s, [4.0, 4.5])


@pytest.mark.parametrize(
    ("pulls", "packs", "pushes"),
    [
        (_PULLS[:1], _PACKS, _PUSHES),
        (_PULLS[1:], _PACKS, _PUSHES),
        ([*_PULLS, (_node("pull", 3), 0.0, 0.0)], _PACKS, _PUSHES),
        (_PULLS, _PACKS[1:], _PUSHES),
        (_PULLS, _PACKS, _PUSHES[:1]),
        (_PULLS, _PACKS, []),
        ([], [], []),
    ],
)
def test_a_step_that_is_cut_off_or_of_another_plan_is_left_out(pulls, packs, pushes):
    assert _read(_worker(pulls, packs), {"ps0": _ps(*pushes)}) is None


def test_a_step_cut_off_at_its_begin_is_not_taken_for_one_of_another_plan():
    pulls = [(_node("pull", 2), 1.0, 3.0), (_node("pull", 3), 1.0, 3.5)]  # Of a plan of three.
    assert _read(_worker(pulls, _PACKS), {"ps0": _ps(*_PUSHES)}, num_pulls=2) is None


def test_a_step_that_the_ps_did_not_record_is_left_out():
    assert _read(_worker(_PULLS, _PACKS), {"ps0": trace.HostTrace("ps", {})}) is None


def test_segments_that_carry_nothing_are_not_waited_for():
    step = _read(_worker(_PULLS, _PACKS[1:]), {"ps0": _ps(*_PUSHES[1:])}, pushes=[2])
    np.testing.assert_array_equal(step.push_arrived_s, [6.5])


def _exchange(delays_s, true_offset_s):
    """Steps in which a tensor went each way with (up, down) delays; the PS's clock is ahead."""
    worker, ps = {}, {}
    for step, (up_s, down_s) in enumerate(delays_s):
        begun_s = 10.0 * step
        worker[step] = _received(("down", 0.0, begun_s + down_s))
        ps[step] = _received(("up", 0.0, begun_s + up_s + true_offset_s))
        worker[step].sent_s["up"] = begun_s
        ps[step].sent_s["down"] = begun_s + true_offset_s
    return worker, ps


_DELAYS_S = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=10)


@given(_DELAYS_S, st.floats(-100, 100))
def test_the_true_offset_lies_within_the_bounds(delays_s, true_offset_s):
    found = transfers.clock_offset(*_exchange(delays_s, true_offset_s))
    assert found.low_s - 1e-9 <= true_offset_s <= found.high_s + 1e-9
    assert found.low_s - 1e-9 <= found.offset_s <= found.high_s + 1e-9


@given(_DELAYS_S, st.floats(-100, 100))
def test_bounds_are_as_tight_as_the_shortest_delays(delays_s, true_offset_s):
    found = transfers.clock_offset(*_exchange(delays_s, true_offset_s))
    shortest_s = sum(np.min(delays_s, axis=0))
    assert found.high_s - found.low_s == pytest.approx(shortest_s, abs=1e-9)


def test_clocks_that_may_agree_are_taken_to_agree():
    found = transfers.clock_offset(*_exchange([(0.5, 0.25)], 0.125))
    assert found == transfers.ClockOffset(0.0, -0.125, 0.625)


def test_clocks_that_cannot_agree_are_set_between_the_bounds():
    found = transfers.clock_offset(*_exchange([(0.5, 0.25), (1.0, 1.0)], 8.0))
    assert found == transfers.ClockOffset(8.125, 7.75, 8.5)


@given(_DELAYS_S, st.floats(-100, 100))
def test_a_clock_that_was_not_set_is_not_said_to_be(delays_s, true_offset_s):
    assert transfers.clock_offset(*_exchange(delays_s, true_offset_s)).set_by_s < 1e-9


def test_nothing_exchanged_bounds_nothing():
    assert transfers.clock_offset({}, {}) == _NO_OFFSET
    assert transfers.clock_offset({1: trace.StepTrace()}, {2: trace.StepTrace()}) == _NO_OFFSET


def test_an_empty_pull_and_its_token_take_what_the_quickest_took():
    worker = _worker([*_PULLS, ("counter", 0.0, 2.0), ("late", 0.0, 9.0)], _PACKS)
    worker.steps[7].sent_s["token"] = 3.0
    ps = _ps(*_PUSHES, ("token", 0.0, 3.5))
    ps.steps[7].sent_s.update({"counter": 1.75, "late": 1.0})
    assert _read(worker, {"ps0": ps}).empty_round_trip_s() == 0.75


def test_without_empty_tensors_nothing_is_known_of_a_round_trip():
    assert _read(_worker(_PULLS, _PACKS), {"ps0": _ps(*_PUSHES)}).empty_round_trip_s() is None


@pytest.mark.parametrize(
    ("offset", "error_s"),
    [((0.0, -0.125, 0.5), 0.5), ((8.0, 7.75, 8.25), 0.25), ((0.0, -np.inf, 0.5), 0.5)],
)
def test_an_offset_may_be_wrong_by_its_farther_known_bound(offset, error_s):
    assert transfers.ClockOffset(*offset).error_s == error_s


def test_clocks_that_nothing_bounds_are_taken_as_they_are():
    assert _NO_OFFSET.error_s == 0.0


def test_a_segment_in_the_body_of_a_loop_is_known():
    worker = _worker([(f"while/body/_1/{n}", a, b) for n, a, b in _PULLS], _PACKS)
    step = _read(worker, {"ps0": _ps(*_PUSHES)})
    np.testing.assert_array_equal(step.pull_s, [2.0, 0.5])
