import numpy as np
import pytest

from tf_dynacomm.profiling import attribution, compute, rows, trace, transfers

_EXACT = transfers.ClockOffset(0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def step(make_step):
    """A layer, and rows of `v_9` that meet it at a second one."""
    nodes = [
        ("x", "Identity", ["batch"]),
        ("read_1", "ReadVariableOp", ["v_1"]),
        ("fwd_1", "MatMul", ["x:o:0", "read_1:value:0"]),
        ("ids_7", "Cast", ["batch"]),
        ("rows_9", "ResourceGather", ["v_9", "ids_7:o:0"]),
        ("read_2", "ReadVariableOp", ["v_2"]),
        ("join_2", "AddV2", ["fwd_1:o:0", "rows_9:o:0"]),
        ("fwd_2", "MatMul", ["join_2:o:0", "read_2:value:0"]),
        ("dy_2", "LossGrad", ["fwd_2:o:0"]),
        ("dw_2", "MatMul", ["join_2:o:0", "dy_2:o:0"]),
        ("set_2", "AssignSubVariableOp", ["v_2", "dw_2:o:0"]),
        ("dy_1", "MatMul", ["dy_2:o:0", "read_2:value:0"]),
        ("drows_9", "Reshape", ["dy_1:o:0"]),
        ("pass_9", "Identity", ["drows_9:o:0"]),
        ("slot_9", "ResourceScatterAdd", ["v_8", "ids_7:o:0", "pass_9:o:0"]),
        ("set_9", "AssignSubVariableOp", ["v_9", "slot_9:o:0"]),
        ("dw_1", "MatMul", ["x:o:0", "dy_1:o:0"]),
        ("set_1", "AssignSubVariableOp", ["v_1", "dw_1:o:0"]),
    ]
    return make_step(nodes, {"1": 10, "2": 10, "7": 3, "8": 100, "9": 100})


@pytest.fixture(scope="module")
def found(step):
    parts = attribution.attribute(step.graph, step.layers)
    return rows.find(step.graph, parts)


def test_rows_count_for_the_layer_that_reads_them_first(step, found):
    assert [layer.name for layer in step.layers] == ["1", "2"]
    assert found.pulls == {"rows_9": 1}


def test_gradients_of_rows_count_for_the_same_layer(found):
    """Under the name of their maker; through a slot; what says which rows are wanted is none."""
    assert found.pushes == {"drows_9": 1}


def test_what_makes_gradients_of_rows_is_computed_backward(step, found):
    """Else it would be what the step reports."""
    parts = attribution.attribute(step.graph, step.layers, found.gradients)
    assert parts["drows_9"] == parts["dy_1"] == attribution.Part(attribution.BACKWARD, 1)
    assert parts["fwd_2"] == attribution.Part(attribution.FORWARD, 2)


def test_a_chain_has_no_rows(make_chain):
    chain = make_chain((10, 20))
    parts = attribution.attribute(chain.graph, chain.layers)
    assert rows.find(chain.graph, parts) == rows.Rows({}, {}, {})


@pytest.fixture
def hosts():
    """A step of a worker and a PS task: rows from 1 s to 3 s, their gradients from 7 s to 8 s."""
    worker, ps = trace.StepTrace(), trace.StepTrace()
    worker.transfers["rows_9"] = trace.Transfer("rows_9", 0.0, 3.0)
    ps.sent_s["rows_9"] = 1.0
    worker.sent_s["drows_9"] = 7.0
    ps.transfers["drows_9"] = trace.Transfer("drows_9", 0.0, 8.0)
    return worker, [(ps, _EXACT)]


def test_rows_are_under_way_from_their_hand_over_to_their_arrival(step, found, hosts):
    names = compute.NameTable(step.graph)
    assert rows.pulled(*hosts, found.pulls, names) == [(1, 1.0, 3.0)]
    assert rows.pushed(*hosts, found.pushes, names) == [(1, 7.0, 8.0)]


def test_rows_share_the_link_with_what_else_is_under_way():
    of_rows_s, others_s = rows.seconds([(2, 1.0, 3.0)], [(0.0, 2.0), (4.0, 5.0)], 3)
    np.testing.assert_allclose(of_rows_s, [0.0, 1.5, 0.0])
    np.testing.assert_allclose(others_s, [1.5, 1.0])


def test_without_rows_no_time_goes_to_them():
    of_rows_s, others_s = rows.seconds([], [(0.0, 2.0)], 2)
    assert (of_rows_s.tolist(), others_s.tolist()) == ([0.0, 0.0], [2.0])
