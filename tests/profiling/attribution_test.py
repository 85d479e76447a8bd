import pytest
import tensorflow as tf

from tf_dynacomm.profiling import attribution

F, B = attribution.FORWARD, attribution.BACKWARD


def _parts(step):
    parts = attribution.attribute(step.graph, step.layers)
    return {node: (part.phase, part.layer) for node, part in parts.items()}


@pytest.fixture(scope="module")
def chain(make_chain):
    return make_chain([10, 10, 10])


def test_forward_belongs_to_the_highest_layer_that_it_needs(chain):
    parts = _parts(chain)
    assert [parts[f"fwd_{i}"] for i in (1, 2, 3)] == [(F, 1), (F, 2), (F, 3)]


def test_backward_belongs_to_the_first_gradient_that_needs_it(chain):
    parts = _parts(chain)
    assert [parts[f"dw_{i}"] for i in (1, 2, 3)] == [(B, 1), (B, 2), (B, 3)]
    assert [parts[f"dy_{i}"] for i in (1, 2)] == [(B, 1), (B, 2)]


def test_the_loss_belongs_to_the_last_layer(chain):
    assert _parts(chain)["dy_3"][1] == 3


def test_what_the_ps_computes_has_no_part(chain):
    assert not {"read_1", "set_1"} & _parts(chain).keys()


def test_what_needs_no_parameter_has_no_part(chain):
    assert "x" not in _parts(chain)


def _branching(make_step):
    """Layer 1 feeds two branches a and b of layer 2, whose sum and a skip feed layer 3."""
    return make_step(
        [
            ("x", "Placeholder", []),
            ("read_1", "ReadVariableOp", ["v_1"]),
            ("stem", "MatMul", ["x:o:0", "read_1:value:0"]),
            ("read_2", "ReadVariableOp", ["v_2"]),
            ("a", "MatMul", ["stem:o:0", "read_2:value:0"]),
            ("read_3", "ReadVariableOp", ["v_3"]),
            ("b", "MatMul", ["stem:o:0", "read_3:value:0"]),
            ("skip", "Relu", ["stem:o:0"]),
            ("sum", "AddN", ["a:o:0", "b:o:0", "skip:o:0"]),
            ("read_4", "ReadVariableOp", ["v_4"]),
            ("head", "MatMul", ["sum:o:0", "read_4:value:0"]),
            ("d_sum", "MatMul", ["head:o:0", "read_4:value:0"]),
            ("dw_4", "MatMul", ["head:o:0", "sum:o:0"]),
            ("d_skip", "ReluGrad", ["d_sum:o:0", "stem:o:0"]),
            ("dw_2", "MatMul", ["d_sum:o:0", "stem:o:0"]),
            ("dw_3", "MatMul", ["d_sum:o:0", "stem:o:0"]),
            ("d_a", "MatMul", ["d_sum:o:0", "read_2:value:0"]),
            ("d_stem", "AddN", ["d_a:o:0", "d_skip:o:0"]),
            ("dw_1", "MatMul", ["d_stem:o:0"]),
            *((f"set_{i}", "AssignSubVariableOp", [f"v_{i}", f"dw_{i}:o:0"]) for i in range(1, 5)),
        ],
        {str(i): 10 for i in range(1, 5)},
    )


def test_branches_of_one_depth_share_a_part(make_step):
    step = _branching(make_step)
    parts = _parts(step)
    assert [layer.name for layer in step.layers] == ["1", "2 (+1)", "4"]
    assert {parts[n] for n in ("a", "b", "sum")} == {(F, 2)}
    assert {parts[n] for n in ("dw_2", "dw_3", "d_sum")} == {(B, 2)}


def test_a_skip_connection_belongs_to_what_it_starts_from_and_leads_to(make_step):
    parts = _parts(_branching(make_step))
    assert parts["skip"] == (F, 1)
    assert {parts[n] for n in ("d_skip", "d_a", "d_stem", "dw_1")} == {(B, 1)}


def test_a_gradient_that_others_are_made_from_belongs_to_its_own_layer(make_step):
    step = make_step(
        [
            ("x", "Placeholder", []),
            ("read_1", "ReadVariableOp", ["v_1"]),
            ("fwd_1", "MatMul", ["x:o:0", "read_1:value:0"]),
            ("read_2", "ReadVariableOp", ["v_2"]),
            ("fwd_2", "AddV2", ["fwd_1:o:0", "read_2:value:0"]),
            ("dy_1", "MatMul", ["fwd_2:o:0"]),
            ("dw_2", "Sum", ["fwd_2:o:0"]),
            ("dw_1", "MatMul", ["dw_2:o:0", "dy_1:o:0"]),
            *((f"set_{i}", "AssignSubVariableOp", [f"v_{i}", f"dw_{i}:o:0"]) for i in (1, 2)),
        ],
        {"1": 10, "2": 10},
    )
    parts = _parts(step)
    assert (parts["dw_2"], parts["dw_1"]) == ((B, 2), (B, 1))


def test_statistics_written_by_the_worker_are_forward(make_step):
    step = make_step(
        [
            ("x", "Placeholder", []),
            ("read_1", "ReadVariableOp", ["v_1"]),
            ("fwd", "MatMul", ["x:o:0", "read_1:value:0"]),
            ("mean", "Mean", ["fwd:o:0"]),
            ("dw_1", "MatMul", ["fwd:o:0"]),
            ("set_1", "AssignSubVariableOp", ["v_1", "dw_1:o:0"]),
        ],
        {"1": 10},
    )
    assert _parts(step)["mean"] == (F, 1)


def test_a_step_that_trains_nothing_is_all_forward(make_step):
    step = make_step(
        [
            ("x", "Placeholder", []),
            ("read_1", "ReadVariableOp", ["v_1"]),
            ("fwd", "MatMul", ["x:o:0", "read_1:value:0"]),
            ("loss", "Mean", ["fwd:o:0"]),
        ],
        {"1": 10},
    )
    assert _parts(step) == {"fwd": (F, 1), "loss": (F, 1)}


@pytest.fixture(scope="module")
def traced_step(make_program):
    """A traced CNN with a skip connection."""
    program = make_program()
    kernels = [program.variable(f"conv_{i}/kernel", tf.ones([3, 3, 1, 1])) for i in (1, 2)]
    kernels.append(program.variable("dense/kernel", tf.ones([4, 2])))

    def step(x):
        image = tf.reshape(x, [-1, 2, 2, 1])
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.conv2d(image, kernels[0], 1, "SAME"))
            hidden += tf.nn.relu(tf.nn.conv2d(hidden, kernels[1], 1, "SAME"))
            loss = tf.reduce_mean((tf.reshape(hidden, [-1, 4]) @ kernels[2]) ** 2)
        program.descend(kernels, tape.gradient(loss, kernels))
        return loss

    return program.trace(step)


def _of_type(step, op):
    return [n.name for n in step.graph.nodes.values() if n.op == op and n.task == "worker"]


def test_operations_of_a_traced_step_belong_to_their_layers(traced_step):
    parts = _parts(traced_step)
    assert [parts[n] for n in _of_type(traced_step, "Conv2D")] == [(F, 1), (F, 2)]
    assert [parts[n] for n in _of_type(traced_step, "Relu")] == [(F, 1), (F, 2)]
    filters = [parts[n] for n in _of_type(traced_step, "Conv2DBackpropFilter")]
    assert filters == [(B, 2), (B, 1)]
    inputs = _of_type(traced_step, "Conv2DBackpropInput")  # The last one, the image's, never runs.
    assert parts[inputs[0]] == (B, 1)
    assert [parts[n] for n in _of_type(traced_step, "ReluGrad")] == [(B, 2), (B, 1)]


def test_every_computation_of_a_traced_step_has_a_part(traced_step):
    """All but what no parameter leads to: constants, and the input's own reshaping."""
    parts, graph = _parts(traced_step), traced_step.graph
    for node in graph.nodes.values():
        fed = any(i.partition(":")[0] in parts or ":value:" in i for i in node.inputs)
        if node.task == "worker" and fed:
            assert node.name in parts, node


def _trained_below(make_step, *, reported):
    """A chain of three layers of which only the lowest is trained; the loss may be returned."""
    nodes = [("x", "Placeholder", [])]
    for i, before in ((1, "x"), (2, "fwd_1"), (3, "fwd_2")):
        nodes.append((f"read_{i}", "ReadVariableOp", [f"v_{i}"]))
        nodes.append((f"fwd_{i}", "MatMul", [f"{before}:o:0", f"read_{i}:value:0"]))
    nodes += [
        ("dy_3", "LossGrad", ["fwd_3:o:0"]),
        ("dy_2", "MatMul", ["dy_3:o:0", "read_3:value:0"]),
        ("dy_1", "MatMul", ["dy_2:o:0", "read_2:value:0"]),
        ("dw_1", "MatMul", ["x:o:0", "dy_1:o:0"]),
        ("set_1", "AssignSubVariableOp", ["v_1", "dw_1:o:0"]),
        *([("loss", "Sum", ["fwd_3:o:0"])] if reported else []),
    ]
    return make_step(nodes, {str(i): 10 for i in (1, 2, 3)})


def test_the_backward_pass_of_layers_above_all_trained_ones_is_the_highest_trained_ones(make_step):
    parts = _parts(_trained_below(make_step, reported=True))
    assert [parts[f"fwd_{i}"] for i in (1, 2, 3)] == [(F, 1), (F, 2), (F, 3)]
    assert {parts[n] for n in ("dy_3", "dy_2", "dy_1", "dw_1")} == {(B, 1)}


def test_without_a_reported_loss_layers_below_the_last_are_still_told_apart(make_step):
    parts = _parts(_trained_below(make_step, reported=False))
    assert [parts[f"fwd_{i}"] for i in (1, 2)] == [(F, 1), (F, 2)]
    assert {parts[n] for n in ("dy_3", "dy_2", "dy_1", "dw_1")} == {(B, 1)}


def test_reported_gradients_stay_backward(make_chain):
    """As where the step returns the norm of all gradients."""
    step = make_chain([10, 10, 10])
    graph = step.graph
    graph.results = ("fwd_3:o:0", "dw_1:o:0", "dw_2:o:0", "dw_3:o:0")
    parts = attribution.attribute(graph, step.layers)
    assert [parts[f"fwd_{i}"].phase for i in (1, 2, 3)] == [F] * 3
    assert [parts[f"dw_{i}"].phase for i in (1, 2)] == [B] * 2


def test_the_second_forward_pass_of_a_step_of_two_updates_is_forward(make_program):
    """As in a GAN: first the judge is trained, then the maker, through the judge."""
    program = make_program()
    maker, judge, last = (
        program.variable(f"{name}/kernel", tf.eye(4)) for name in ("maker", "judge", "last")
    )

    def step(x):
        losses = []
        for trained in ([judge, last], [maker]):
            with tf.GradientTape() as tape:
                y = tf.nn.relu(tf.nn.tanh(x @ maker) @ judge)
                losses.append(tf.reduce_mean((y @ last) ** 2))
            program.descend(trained, tape.gradient(losses[-1], trained))
        return losses

    traced = program.trace(step)
    parts = _parts(traced)
    assert [layer.name for layer in traced.layers] == ["maker", "judge", "last"]
    assert [parts[n] for n in _of_type(traced, "Tanh")] == [(F, 1)] * 2
    assert [parts[n] for n in _of_type(traced, "Relu")] == [(F, 2)] * 2
    (grad,) = (n for n in _of_type(traced, "TanhGrad") if n in traced.graph.live)
    assert parts[grad] == (B, 1)
    assert [parts[n] for n in _of_type(traced, "ReluGrad")] == [(B, 2), (B, 1)]


def test_what_is_only_reported_of_gradients_is_backward(make_program):
    """As the norm of all gradients, or a sleep that only control edges tie to what follows."""
    program = make_program()
    first, last = (program.variable(f"{name}/kernel", tf.eye(4)) for name in ("first", "last"))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.nn.relu(x @ first) @ last) ** 2)
        gradients = tape.gradient(loss, [first, last])
        program.descend([first, last], gradients)
        return loss, tf.nn.l2_loss(gradients[1]), tf.nn.tanh(tf.add_n(gradients)), tf.nn.elu(loss)

    traced = program.trace(step)
    parts = _parts(traced)
    found = {op: [parts[n] for n in _of_type(traced, op)] for op in ("L2Loss", "Tanh", "Elu")}
    assert found == {"L2Loss": [(B, 2)], "Tanh": [(B, 1)], "Elu": [(F, 2)]}
