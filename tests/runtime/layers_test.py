import pytest
import tensorflow as tf

from tf_dynacomm.runtime import layers


def _table(step):
    """(layer, names of what it pulls, names of what it pushes) of each layer."""
    return [
        (
            layer.name,
            [p.variable.name for p in layer.pulls],
            [p.variable.name for p in layer.pushes],
        )
        for layer in step.layers
    ]


def _names(step):
    return [layer.name for layer in step.layers]


def test_layers_come_in_forward_order_with_what_they_pull_and_push(momentum_step):
    assert _table(momentum_step) == [
        (name, [f"{name}/kernel", f"{name}/bias"], [f"{name}/kernel", f"{name}/bias"])
        for name in ("dense_1", "dense_2")
    ]


def test_branches_of_one_depth_are_one_layer(branching_step):
    assert _names(branching_step) == ["stem", "left (+1)", "head"]
    pulls = [p.variable.name for p in branching_step.layers[1].pulls]
    assert pulls == ["left/kernel", "left/bias", "right/kernel", "right/bias"]


def test_bytes_are_those_of_the_tensors(mixed_step):
    single, double = mixed_step.layers
    assert (single.pull_bytes, single.push_bytes) == (4 * (16 + 4), 4 * (16 + 4))
    assert (double.pull_bytes, double.push_bytes) == (8 * 8, 8 * 8)


def test_slots_rates_statistics_and_metrics_are_in_no_layer(momentum_step, mixed_step):
    moved = [
        m.variable.name
        for step in (momentum_step, mixed_step)
        for layer in step.layers
        for m in (*layer.pulls, *layer.pushes)
    ]
    assert {name.partition("/")[0] for name in moved} == {"dense_1", "dense_2", "single", "double"}


def test_a_shared_variable_belongs_to_the_layer_that_reads_it_first(shared_step):
    shared = shared_step.layers[0]
    assert _names(shared_step) == ["shared", "frozen", "last"]
    assert [len(p.crossings) for p in shared.pulls] == [2]
    assert len(shared.pushes) == 1


def test_a_frozen_variable_is_pulled_and_never_pushed(shared_step):
    assert _table(shared_step)[1] == ("frozen", ["frozen/kernel"], [])
    assert shared_step.layers[1].push_bytes == 0


def test_a_read_after_a_write_is_not_pulled(shared_step):
    (pull,) = shared_step.layers[2].pulls
    tensors = {c.tensor for c in shared_step.graph.crossings if "ReadVariableOp" in c.tensor}
    assert [c.tensor for c in pull.crossings] == ["matmul_3/ReadVariableOp:value:0"]
    assert "Sum/ReadVariableOp:value:0" in tensors


def test_a_gradient_of_unknown_shape_is_not_in_a_segment(dynamic_step):
    assert _table(dynamic_step)[1] == ("last", ["last/kernel"], ["last/kernel"])
    assert _table(dynamic_step)[0] == ("first", ["first/kernel"], [])


def test_a_step_that_trains_nothing_pushes_nothing(evaluation_step):
    assert [(layer.name, layer.push_bytes) for layer in evaluation_step.layers] == [
        ("first", 0),
        ("last", 0),
    ]


def test_an_update_needs_its_own_gradient_only(two_updates_step):
    assert _table(two_updates_step) == [
        ("maker", ["maker/kernel"], ["maker/kernel"]),
        ("judge", ["judge/kernel"], ["judge/kernel"]),
    ]


def _one_layer(program, variables):
    """The layers of a step that adds up products with `variables` inside a name scope."""

    def step(x):
        with tf.name_scope("block/sum"):
            return tf.add_n([x @ v for v in variables])

    return program.trace(step).layers


@pytest.mark.parametrize(
    ("names", "layer"),
    [
        (("conv2d/kernel", "conv2d/bias"), "conv2d"),
        (("net/conv2d/kernel:x",), "net/conv2d"),
        (("embedding/table/part_0", "embedding/table/part_1"), "embedding"),
        (("kernel",), "block/sum"),
        (("kernel/part_0",), "block/sum"),
    ],
)
def test_the_layer_is_the_owner_of_the_variable(make_program, names, layer):
    program = make_program()
    found = _one_layer(program, [program.variable(name, tf.eye(4)) for name in names])
    assert [entry.name for entry in found] == [layer]
    assert len(found[0].pulls) == len(names)


def test_what_reaches_several_variables_is_no_gradient(make_program):
    """A rate that the worker works out, and sends to the PS for all updates."""
    program = make_program()
    kernels = [program.variable(f"dense_{i}/kernel", tf.eye(4)) for i in (1, 2)]

    def step(x):
        rate = 0.1 * tf.reduce_mean(x @ kernels[0] @ kernels[1])
        for kernel in kernels:
            with program.device(kernel):
                kernel.assign_sub(kernel * rate)

    assert [layer.pushes for layer in program.trace(step).layers] == [(), ()]


def test_a_statistic_that_the_worker_reads_and_writes_is_not_pushed(make_program):
    program = make_program()
    mean = program.variable("norm/moving_mean", tf.zeros([4]), trainable=False)

    def step(x):
        mean.assign(tf.ensure_shape(0.9 * mean + tf.reduce_mean(x, axis=0), [4]))

    assert _table(program.trace(step)) == [("norm", ["norm/moving_mean"], [])]


def test_what_cannot_be_packed_is_not_pulled(make_program):
    program = make_program()
    kernel = program.variable("dense/kernel", tf.eye(4))
    label = program.variable("label", "a text", trainable=False)

    def step(x):
        return x @ kernel + tf.cast(tf.strings.length(label), tf.float32)

    assert _names(program.trace(step)) == ["dense"]


def test_what_another_ps_task_reads_is_not_pulled(make_program):
    program = make_program()
    kernel, rate = program.variable("dense/kernel", tf.eye(4)), program.variable("rate", 0.1)
    other = program.variable("other", 0.0, trainable=False, ps=1)

    def step(x):
        with program.device(other):
            doubled = 2.0 * rate
            other.assign(doubled)
        return x @ kernel

    assert _names(program.trace(step)) == ["dense"]


def test_what_a_ps_task_without_variables_reads_is_not_pulled(make_program):
    program = make_program()
    kernel, rate = program.variable("dense/kernel", tf.eye(4)), program.variable("rate", 0.1)

    def step(x):
        with tf.device("/job:ps/replica:0/task:1/device:CPU:0"):
            doubled = 2.0 * rate
        return x @ kernel * doubled

    assert _names(program.trace(step)) == ["dense"]


def test_rows_gathered_on_the_ps_are_not_pulled(make_program):
    program = make_program()
    table = program.variable("embedding/table", tf.eye(4))
    kernel = program.variable("dense/kernel", tf.eye(4))

    def step(x):
        return tf.gather(table, tf.cast(x[:, 0], tf.int32)) @ kernel

    assert _names(program.trace(step)) == ["dense"]


def test_layer_sizes_are_zero_when_nothing_moves():
    empty = layers.Layer("empty", (), ())
    assert (empty.pull_bytes, empty.push_bytes) == (0, 0)


def test_a_rate_that_the_worker_works_out_is_no_gradient(make_program):
    """Though it reaches one variable only."""
    program = make_program()
    kernel = program.variable("dense/kernel", tf.eye(4))
    iterations = program.variable("iteration", 1.0, trainable=False)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ kernel) ** 2)
        gradient, rate = tape.gradient(loss, kernel), 0.1 / iterations
        with program.device(kernel):
            kernel.assign_sub(rate * gradient)

    (layer,) = program.trace(step).layers
    assert [p.size_bytes for p in layer.pushes] == [64]


def test_a_layer_whose_result_is_not_used_is_left_out(make_program):
    program = make_program()
    used, unused = (program.variable(f"{n}/kernel", tf.eye(4)) for n in ("used", "unused"))

    def step(x):
        tf.nn.relu(x @ unused)
        return x @ used

    assert _names(program.trace(step)) == ["used"]


def test_what_the_worker_casts_counts_as_what_travels(bfloat16_step):
    assert _names(bfloat16_step) == ["dense_1", "dense_2", "mixed"]
    sizes = [(layer.pull_bytes, layer.push_bytes) for layer in bfloat16_step.layers]
    assert sizes == [(40, 40), (40, 40), (64, 64)]
