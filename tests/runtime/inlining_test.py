import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2, types_pb2

from tf_dynacomm.runtime import inlining, tf_internals

_GPU = "/job:worker/replica:0/task:0/device:GPU:0"


def _function(name, args, nodes, results, controls=()):
    """A definition of (name, op, device, inputs) nodes; the op `f()` is a call of `f`."""
    definition = function_pb2.FunctionDef()
    definition.signature.name = name
    for arg in args:
        definition.signature.input_arg.add(name=arg, type=types_pb2.DT_FLOAT)
    for node_name, op, device, inputs in nodes:
        node = definition.node_def.add(name=node_name, op=op, device=device, input=inputs)
        if op.endswith("()"):
            node.op = "StatefulPartitionedCall"
            node.attr["f"].func.name = op.removesuffix("()")
    for index, tensor in enumerate(results):
        definition.signature.output_arg.add(name=f"r{index}", type=types_pb2.DT_FLOAT)
        definition.ret[f"r{index}"] = tensor
    definition.control_ret.update({c: c for c in controls})
    return definition


_BODY = _function(
    "body",
    ["x"],
    [
        ("one", "Const", "", []),
        ("add", "AddV2", "/device:CPU:0", ["x", "one:output:0"]),
        ("neg", "Neg", "", ["add:z:0"]),
        ("print", "PrintV2", "", ["neg:y:0"]),
    ],
    ["neg:y:0", "x"],
    ["print"],
)


def _inlined(nodes, results=(), controls=(), library=(_BODY,)):
    outer = _function("outer", ["a"], nodes, results, controls)
    return inlining.inline(outer, {f.signature.name: f for f in library})


def _inputs(inlined):
    return {n.name: list(n.input) for n in inlined.definition.node_def}


def test_nodes_of_a_called_function_stand_where_the_call_stood():
    nodes = [("b", "Neg", "", ["a"]), ("call", "body()", "", ["b:y:0"]), ("c", "Neg", "", ["a"])]
    found = [n.name for n in _inlined(nodes).definition.node_def]
    assert found == ["b", "call/one", "call/add", "call/neg", "call/print", "c"]


def test_tensors_go_in_and_out_of_a_called_function():
    nodes = [("call", "body()", "", ["a"]), ("c", "Sub", "", ["call:output:0", "call:output:1"])]
    inlined = _inlined(nodes, ["call:output:0", "c:z:0"])
    inputs = _inputs(inlined)
    assert inputs["call/add"] == ["a", "call/one:output:0"]
    assert inputs["c"] == ["call/neg:y:0", "a"]
    assert dict(inlined.definition.ret) == {"r0": "call/neg:y:0", "r1": "c:z:0"}


def test_what_waits_for_a_call_waits_for_its_control_outputs():
    nodes = [("call", "body()", "", ["a"]), ("c", "Neg", "", ["a", "^call"])]
    inputs = _inputs(_inlined(nodes))
    assert (inputs["c"], inputs["call"]) == (["a", "^call"], ["^call/print"])


def test_a_call_is_a_control_output_as_before():
    inlined = _inlined([("call", "body()", "", ["a"])], controls=["call"])
    assert dict(inlined.definition.control_ret) == {"call": "call"}
    assert _inputs(inlined)["call"] == ["^call/print"]


def test_what_begins_a_called_function_waits_for_what_the_call_waited_for():
    nodes = [("b", "NoOp", "", []), ("call", "body()", "", ["a", "^b"])]
    inputs = _inputs(_inlined(nodes))
    assert inputs["call/one"] == ["^b"]
    assert inputs["call/add"] == ["a", "call/one:output:0", "^b"]
    assert inputs["call/neg"] == ["call/add:z:0"]


def test_several_waits_of_a_call_are_gathered():
    nodes = [
        ("b", "NoOp", "", []),
        ("c", "NoOp", "", []),
        ("call", "body()", "", ["a", "^b", "^c"]),
    ]
    inputs = _inputs(_inlined(nodes))
    assert inputs["call/input_control_node"] == ["^b", "^c"]
    assert inputs["call/one"] == ["^call/input_control_node"]


def test_a_call_completes_the_devices_of_its_function():
    inlined = _inlined([("call", "body()", _GPU, ["a"])])
    devices = {n.name: n.device for n in inlined.definition.node_def}
    assert devices["call/neg"] == _GPU
    assert devices["call/add"] == _GPU.replace("GPU", "CPU")


def test_calls_within_calls_are_inlined():
    middle = _function("middle", ["y"], [("inner", "body()", "", ["y"])], ["inner:output:0"])
    nodes = [("call", "middle()", "", ["a"])]
    inlined = _inlined(nodes, ["call:output:0"], library=(_BODY, middle))
    assert _inputs(inlined)["call/inner/add"] == ["a", "call/inner/one:output:0"]
    assert inlined.definition.ret["r0"] == "call/inner/neg:y:0"
    assert inlined.origins["call/inner/add"] == ("body", "add")


def test_two_calls_of_a_function_are_apart():
    nodes = [("first", "body()", "", ["a"]), ("second", "body()", "", ["first:output:0"])]
    assert _inputs(_inlined(nodes))["second/add"] == ["first/neg:y:0", "second/one:output:0"]


@pytest.mark.parametrize("attr", ["_noinline", "_XlaMustCompile", "api_implements"])
@pytest.mark.parametrize("of_function", [True, False])
def test_what_the_runtime_keeps_whole_stays_a_call(attr, of_function):
    body, outer = function_pb2.FunctionDef(), _function("outer", [], [("c", "body()", "", [])], [])
    body.CopyFrom(_BODY)
    attrs = body.attr if of_function else outer.node_def[0].attr
    if attr == "api_implements":
        attrs[attr].s = b"lstm"
    else:
        attrs[attr].b = True
    inlined = inlining.inline(outer, {"body": body})
    assert [n.op for n in inlined.definition.node_def] == ["StatefulPartitionedCall"]


def test_colocation_goes_with_the_nodes_and_is_dropped_where_there_is_none():
    body = function_pb2.FunctionDef()
    body.CopyFrom(_BODY)
    body.node_def[2].attr["_class"].list.s.extend([b"loc:@add", b"loc:@x"])
    inlined = _inlined([("call", "body()", "", ["a"])], library=(body,))
    assert list(inlined.definition.node_def[2].attr["_class"].list.s) == [b"loc:@call/add"]


def test_a_function_without_calls_stays_as_it_is():
    inlined = inlining.inline(_BODY, {})
    assert inlined.definition == _BODY
    assert inlined.origins["neg"] == ("body", "neg")


def test_an_inlined_step_computes_the_same():
    variable = tf.Variable([1.0, 2.0])

    @tf.function
    def square(x):
        variable.assign_add([1.0, 1.0])
        return x * x * variable

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def step(x):
        with tf.GradientTape() as tape:
            y = square(x) + square(2 * x)
        variable.assign_sub(tape.gradient(y, variable))
        return y

    base = step.get_concrete_function()
    functions = {n: f.definition for n, f in tf_internals.functions_of(base).items()}
    definition = inlining.inline(base.function_def, functions).definition
    definition.signature.name += "_inlined"
    assert not [n for n in definition.node_def if "Call" in n.op]
    results = []
    for function in (base, tf_internals.with_function_def(base, definition)):
        variable.assign([1.0, 2.0])
        results.append([function(tf.constant([3.0, 4.0])), variable.numpy()])
    np.testing.assert_array_equal(*results)


def _gathered(inputs):
    """Two gradients of which each waits for the other in `all`."""
    nodes = [("g", "Neg", "", ["a"]), ("h", "Neg", "", ["a"]), ("copy", "Identity", "", ["g:y:0"])]
    sums = [("s", "Neg", "", ["all:output:0"]), ("t", "Neg", "", ["all:output:1"])]
    return _inputs(_inlined([*nodes, ("all", "IdentityN", "", inputs), *sums]))


def test_gradients_do_not_wait_for_each_other_where_all_are_passed_on():
    inputs = _gathered(["copy:output:0", "h:y:0", "g:y:0", "h:y:0"])
    assert (inputs["s"], inputs["t"]) == (["copy:output:0"], ["h:y:0"])


@pytest.mark.parametrize(
    "inputs",
    [
        ["g:y:0", "h:y:0"],  # No function with a custom gradient.
        ["copy:output:0", "h:y:0", "h:y:0", "h:y:0"],  # It gives something else than it gets.
        ["copy:output:0", "h:y:0", "g:y:0", "h:y:0", "^g"],
    ],
)
def test_other_tensors_that_are_gathered_stay_so(inputs):
    found = _gathered(inputs)
    assert (found["s"], found["t"]) == (["all:output:0"], ["all:output:1"])
