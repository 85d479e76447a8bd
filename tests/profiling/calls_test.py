import pytest

from tf_dynacomm.profiling import calls

_OFTEN = [f"n{i}" for i in range(20)]


def _call(steps, *, late=0.0, extra_receive=True, loop=_OFTEN):
    """A call of a loop of so many steps: each receives `w`, runs `a` twice, sends `g`."""
    call = calls.Call()
    call.operations.append(calls.Operation("outside", 0.0, 0.1))
    for number in range(steps):
        begin = 10.0 * number
        call.requested_s["w/_1"].append(begin - late)
        call.arrived_s["w/_1"].append(begin + 1)
        for node, at in (*((node, 4) for node in loop), ("a", 2), ("a", 3)):
            call.operations.append(calls.Operation(node, begin + at, begin + at + 1))
        call.sent_s["g"].append(begin + 6)
    if extra_receive:
        call.requested_s["w/_1"].append(10.0 * steps)
        call.arrived_s["w/_1"].append(10.0 * steps + 1)
    return call


def test_a_call_is_a_step():
    ((step_id, step),) = _call(1, extra_receive=False).steps(7)
    assert step_id == 7
    assert [o.node for o in step.operations] == ["outside", "a", "a", *_OFTEN]
    assert step.sent_s == {"g": 6.0}
    assert not step.repeats


@pytest.mark.parametrize("extra_receive", [True, False])
def test_the_steps_of_a_loop_are_told_apart(extra_receive):
    steps = dict(_call(3, extra_receive=extra_receive).steps(7))
    assert list(steps) == [(7, 0, 3), (7, 1, 3), (7, 2, 3)]
    second = steps[7, 1, 3]
    others = [(node, 14) for node in _OFTEN]
    assert [(o.node, o.start_s) for o in second.operations] == [("a", 12), ("a", 13), *others]
    assert second.transfers == {"w": calls.Transfer("w", 10.0, 11.0)}
    assert second.sent_s == {"g": 16.0}


def test_what_a_loop_asks_for_early_is_no_wait_of_the_step():
    steps = dict(_call(3, late=9.0).steps(7))
    assert steps[7, 1, 3].transfers["w"].requested_s == 5.0  # The end of the step before.


def test_a_call_that_was_recorded_in_part_is_not_cut():
    call = _call(3)
    call.arrived_s["v/_2"] = [1.0, 11.0]
    call.requested_s["v/_2"] = [0.0, 10.0]
    ((step_id, step),) = call.steps(7)
    assert (step_id, step.repeats) == (7, True)


def test_a_call_whose_operations_do_not_tell_is_not_cut():
    ((_, step),) = _call(3, loop=["b", "c"]).steps(7)  # One in four runs outside the loop.
    assert step.repeats


def test_outputs_of_one_node_are_one_transfer():
    call = calls.Call()
    for receiver, request, arrival in (("w/_1", 1.0, 2.0), ("w/_2", 0.5, 1.5)):
        call.requested_s[receiver].append(request)
        call.arrived_s[receiver].append(arrival)
    ((_, step),) = call.steps(7)
    assert step.transfers == {"w": calls.Transfer("w", 0.5, 2.0)}
    assert not step.repeats


def test_a_step_with_a_loop_of_its_own_is_one_step():
    call = _call(3)
    call.requested_s["dynacomm/pull_1/ps0/float32/pack/_2"].append(0.0)
    call.arrived_s["dynacomm/pull_1/ps0/float32/pack/_2"].append(1.0)
    ((step_id, step),) = call.steps(7)
    assert (step_id, step.repeats) == (7, False)
    assert step.transfers["w"] == calls.Transfer("w", 0.0, 31.0)
