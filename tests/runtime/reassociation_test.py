import pytest
import tensorflow as tf

from tf_dynacomm.plan import Plan
from tf_dynacomm.runtime import reassociation


def _step(program, compute):
    """A step that computes with a matrix and a vector, both on one PS task."""
    kernel = program.variable("dense/kernel", tf.eye(4))
    bias = program.variable("dense/bias", [1.0, 2.0, 3.0, 4.0])
    return program.trace(lambda x: compute(x @ kernel, bias))


def _read_twice(y):
    return (y + 1.0) * tf.nn.relu(y)


def _found(step):
    """The names of the variables that must not be packed."""
    pulls = [pull for layer in step.layers for pull in layer.pulls]
    found = [p.variable.name for p in pulls if reassociation.meets_a_constant(step.graph, p)]
    return [name.rpartition("/")[2] for name in found]


@pytest.mark.parametrize(
    "compute",
    [
        lambda y, bias: y + bias + 1.0,
        lambda y, bias: 1.0 - (y - bias),
        lambda y, bias: tf.nn.bias_add(y, bias) + tf.constant([1.0, 2.0, 3.0, 4.0]),
        lambda y, bias: y + (bias - tf.reduce_mean(y)) + 1.0,
        lambda y, bias: y * bias / 3.0,
        lambda y, bias: y * bias * (tf.constant(2.0) + tf.cast(tf.constant(1), tf.float32)),
        lambda y, bias: y * bias / tf.cast(tf.size(y), tf.float32),
    ],
)
def test_a_constant_at_the_end_of_a_chain_is_found(make_program, compute):
    assert _found(_step(make_program(), compute)) == ["bias"]


@pytest.mark.parametrize(
    "compute",
    [
        lambda y, bias: tf.nn.relu(y + bias) + 1.0,
        lambda y, bias: (y + bias) * 2.0,
        lambda y, bias: y * bias + 1.0,
        lambda y, bias: _read_twice(y + bias),
        lambda y, bias: y + bias,
    ],
)
def test_other_constants_are_left(make_program, compute):
    assert _found(_step(make_program(), compute)) == []


def test_it_travels_by_itself_in_its_segments_turn(make_program, rewritten):
    step = _step(make_program(), lambda y, bias: y + bias + 1.0)
    after = rewritten(step, Plan([(1, 1)], []))
    nodes = {node.name: node for node in after.node_def}
    token = nodes["dynacomm/pull_1/arrived"]
    assert "^dynacomm/pull_1/bare" in token.input
    (read,) = nodes["dynacomm/pull_1/bare"].input
    assert nodes[read.partition(":")[0]].op == "ReadVariableOp"
    adds = [n for n in after.node_def if n.op in ("AddV2", "BiasAdd") and read in n.input]
    assert adds


def test_long_chains_of_operations_are_no_constants(make_program):
    def compute(y, bias):
        for _ in range(2000):
            y = tf.nn.relu(y)
        return bias + 1.0 * y + y

    assert _found(_step(make_program(), compute)) == []
