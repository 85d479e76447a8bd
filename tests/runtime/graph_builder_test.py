import numpy as np
import pytest
import tensorflow as tf

from tf_dynacomm.runtime import graph_builder, tf_internals

_CPU = "/device:CPU:0"


@pytest.fixture
def base():
    @tf.function(input_signature=[tf.TensorSpec([6]), tf.TensorSpec([6])])
    def function(x, y):
        return tf.add(x, y, name="sum")

    return function.get_concrete_function()


@pytest.fixture
def builder(base, request):
    return graph_builder.GraphBuilder(base.function_def, f"built_{request.node.name}")


def _node(builder, name):
    return next(n for n in builder.function_def.node_def if n.name == name)


def test_the_definition_that_it_starts_from_stays_as_it_is(base, builder):
    before = base.function_def.SerializeToString()
    builder.set_input("sum", 0, builder.constant(_CPU, np.zeros(6, np.float32)))
    assert base.function_def.SerializeToString() == before


def test_set_input_changes_what_is_computed(base, builder):
    builder.set_input("sum", 0, builder.constant(_CPU, np.full(6, 3, np.float32)))
    built = tf_internals.with_function_def(base, builder.function_def)
    np.testing.assert_array_equal(built(tf.ones(6), tf.ones(6)), np.full(6, 4))


def test_add_control_comes_after_the_inputs(builder):
    builder.add_control("sum", "other")
    assert list(_node(builder, "sum").input) == ["x", "y", "^other"]


def test_replace_controls_keeps_inputs_and_other_controls(builder):
    for name in ("a", "b", "c"):
        builder.add_control("sum", name)
    builder.replace_controls("sum", ["a", "c"], "all")
    assert list(_node(builder, "sum").input) == ["x", "y", "^b", "^all"]


def test_a_no_op_waits_for_its_controls(builder):
    name = builder.no_op("wait", _CPU, ["sum", "other"])
    node = _node(builder, name)
    assert (node.op, node.device, list(node.input)) == ("NoOp", _CPU, ["^sum", "^other"])


def test_a_name_that_is_taken_gets_a_number(builder):
    names = [builder.no_op(name, "", []) for name in ("sum", "sum", "new", "new")]
    assert names == ["sum_1", "sum_2", "new", "new_1"]


def test_equal_constants_of_a_device_are_one_node(builder):
    zeros = [builder.constant(_CPU, np.int32(0)) for _ in range(2)]
    others = [
        builder.constant(_CPU, np.float32(0)),
        builder.constant(_CPU, np.array([0], np.int32)),
        builder.constant("/job:ps/task:0", np.int32(0)),
    ]
    assert zeros[0] == zeros[1]
    assert len({*zeros, *others}) == 4


def test_pieces_of_a_pack_are_its_members(base, builder):
    """Lays x and y end to end and cuts them again, by way of a reshape and both kinds of copy."""
    flat = [builder.reshape("flat", _CPU, t, "float32", [-1]) for t in ("x", "y")]
    whole = builder.concat("pack", _CPU, flat, "float32")
    sent = builder.lasting_identity("send", _CPU, whole, "float32")
    received = builder.identity("receive", _CPU, sent, "float32")
    for index, begin in enumerate((6, 0)):
        piece = builder.slice("unpack", _CPU, received, "float32", begin, 6)
        builder.set_input("sum", index, piece)
    _node(builder, "sum").op = "Sub"
    built = tf_internals.with_function_def(base, builder.function_def)
    x, y = tf.range(6.0), tf.range(6.0) ** 2
    np.testing.assert_array_equal(built(x, y), y - x)


def test_types_are_those_asked_for(builder):
    tensor = builder.concat("pack", _CPU, ["x", "y"], "float32")
    node = _node(builder, "pack")
    assert tensor == "pack:output:0"
    assert (node.attr["T"].type, node.attr["N"].i) == (tf.float32.as_datatype_enum, 2)


def test_a_node_runs_another_function(base):
    @tf.function(input_signature=[tf.TensorSpec([6])])
    def loop(x):
        return tf.while_loop(lambda x: True, lambda x: x + 1, [x], maximum_iterations=2)

    definition = loop.get_concrete_function().function_def
    builder = graph_builder.GraphBuilder(definition, "looped")
    name = next(n.name for n in definition.node_def if "While" in n.op)
    builder.set_function(name, "body", "other")
    assert _node(builder, name).attr["body"].func.name == "other"
