import pytest
import tensorflow as tf

from tf_dynacomm.plan import Plan

_PS = "/job:ps/replica:0/task:1/device:CPU:0"


def _embedding(program, rows):
    """A step that reads a table, gathers from it as Keras 3 does, and trains it and a kernel."""
    table = program.variable("embedding/table", tf.ones([rows, 4]), ps=1)
    kernel = program.variable("dense/kernel", tf.eye(4))

    def step(x):
        indices = tf.cast(x[:, 0] * 8, tf.int32)
        with tf.GradientTape() as tape:
            read = tf.convert_to_tensor(table)
            y = tf.gather(read, indices, axis=0) @ kernel
            loss = tf.reduce_sum(y**2)
        gradients = tape.gradient(loss, [table, kernel])
        program.descend([kernel], gradients[1:])
        with program.device(table):
            table.scatter_sub(tf.IndexedSlices(gradients[0].values, gradients[0].indices))
        return loss

    return program.trace(step)


@pytest.fixture(scope="module")
def large(make_program):
    """A step with a table of 1.6 MB."""
    return _embedding(make_program(), 100_000)


def test_rows_of_a_large_table_are_gathered_beside_it(large):
    gathers = [n for n in large.graph.nodes.values() if n.op == "GatherV2"]
    assert [n.device for n in gathers] == [_PS]
    assert [layer.name for layer in large.layers] == ["dense"]


def _reads(step):
    """What reads of the table give."""
    table = next(v.arg for v in step.graph.variables.values() if "embedding" in v.name)
    return {
        f"{n.name}:value:0"
        for n in step.graph.nodes.values()
        if n.op == "ReadVariableOp" and n.inputs[0] == table
    }


def test_the_table_itself_does_not_cross(large):
    assert _reads(large)
    assert not _reads(large) & {c.tensor for c in large.graph.crossings}


def test_a_small_table_is_pulled_whole(make_program):
    step = _embedding(make_program(), 100)
    assert _reads(step) & {c.tensor for c in step.graph.crossings}
    assert [layer.name for layer in step.layers] == ["embedding", "dense"]


def test_a_table_that_the_worker_reads_besides_is_pulled(make_program):
    step = _read_besides(make_program())
    assert _reads(step) & {c.tensor for c in step.graph.crossings}


def _read_besides(program):
    table = program.variable("embedding/table", tf.ones([100_000, 4]), ps=1)

    def step(x):
        read = tf.convert_to_tensor(table)
        return tf.gather(read, tf.cast(x[:, 0], tf.int32)) + tf.reduce_sum(read)

    return program.trace(step)


def test_gathering_elsewhere_computes_the_same_bits(large, rewritten):
    plan = Plan([(1, 1)], [(1, 1)])
    expected = large.run_here(large.function_def)
    found = large.run_here(rewritten(large, plan))
    for a, b in zip(expected, found, strict=True):
        assert (a == b).all()
