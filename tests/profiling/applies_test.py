import pytest

from tf_dynacomm.plan import Plan
from tf_dynacomm.profiling import applies, compute, trace


@pytest.fixture
def applied_s(make_chain):
    """Seconds of each layer's application, given a PS task's (node, start, end) operations."""
    chain = make_chain([10, 20, 30])
    names = compute.NameTable(chain.graph)
    layers = applies.layers_applied(chain.graph, chain.layers)

    def applied(*operations, plan=None):
        step = trace.StepTrace([trace.Operation(*o) for o in operations])
        return compute.seconds_of(applies.pieces(step, names, layers, plan, 3), 3)[::-1].tolist()

    return applied


def test_updates_count_for_the_layer_whose_gradient_they_need(applied_s):
    assert applied_s(("set_3", 0.0, 1.0), ("set_1", 2.0, 4.0)) == [2.0, 0.0, 1.0]


def test_what_runs_at_once_counts_once_for_the_layer_that_comes_first(applied_s):
    assert applied_s(("set_1", 0.0, 3.0), ("set_2", 1.0, 2.0)) == [2.0, 1.0, 0.0]


def test_unpacking_counts_for_the_layer_that_is_applied_first(applied_s):
    plan = Plan([(1, 3)], [(2, 3), (1, 1)])
    unpack = ("dynacomm/push_1/ps0/float32/unpack", 0.0, 1.0)
    assert applied_s(unpack, ("set_2", 1.0, 2.0), plan=plan) == [0.0, 1.0, 1.0]
    assert applied_s(unpack) == [0.0, 0.0, 0.0]


def test_other_operations_of_the_ps_are_left_out(applied_s):
    assert applied_s(("read_1", 0.0, 5.0), ("elsewhere", 1.0, 2.0)) == [0.0, 0.0, 0.0]


def test_what_needs_several_gradients_waits_for_the_last_layer(make_step):
    ps = "/job:ps/replica:0/task:0/device:CPU:0"
    nodes = [("x", "Identity", ["batch"])]
    for i in (1, 2):
        before = "x:o:0" if i == 1 else "fwd_1:o:0"
        nodes += [(f"read_{i}", "ReadVariableOp", [f"v_{i}"])]
        nodes += [(f"fwd_{i}", "MatMul", [before, f"read_{i}:value:0"])]
    nodes += [(f"dw_{i}", "MatMul", ["x:o:0", "fwd_2:o:0"]) for i in (2, 1)]
    nodes += [(f"set_{i}", "AssignSubVariableOp", [f"v_{i}", f"dw_{i}:o:0"]) for i in (2, 1)]
    nodes += [("both", "VarIsInitializedOp", ["v_2", "^set_1", "^set_2"])]
    step = make_step(nodes, {"1": 10, "2": 10})
    assert step.graph.nodes["both"].device == ps
    assert applies.layers_applied(step.graph, step.layers) == {"set_1": 1, "set_2": 2, "both": 1}
