import pytest
from tensorflow.core.framework import function_pb2

from tf_dynacomm.runtime import step_graph, wire

_PS = "/job:ps/replica:0/task:0/device:CPU:0"
_BYTES = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2, "int32": 4, "int8": 1}


def _graph(nodes):
    """A graph of (name, op, device, inputs, dtype) nodes, each of which is returned."""
    definition, dtypes = function_pb2.FunctionDef(), {}
    for name, op, device, inputs, dtype in nodes:
        definition.node_def.add(name=name, op=op, device=device, input=inputs)
        definition.ret[name] = f"{name}:y:0"
        dtypes[name] = dtype

    def type_of(tensor):
        dtype = dtypes[step_graph.producer(tensor)]
        return step_graph.TensorType(dtype, (10,), _BYTES[dtype])

    return step_graph.StepGraph(definition, {}, type_of)


def _pulled(*readers, dtype="float32"):
    nodes = [("read", "ReadVariableOp", _PS, [], dtype)]
    nodes += [(f"r{i}", op, "", ["read:value:0"], to) for i, (op, to) in enumerate(readers)]
    graph = _graph(nodes)
    return wire.pulled_type(graph, graph.crossings)


def test_what_is_cast_to_a_smaller_type_is_sent_in_it():
    found = _pulled(("Cast", "bfloat16"), ("Cast", "bfloat16"))
    assert found == step_graph.TensorType("bfloat16", (10,), 2)


@pytest.mark.parametrize(
    "readers",
    [
        [("MatMul", "float32")],
        [("Cast", "bfloat16"), ("MatMul", "float32")],
        [("Cast", "bfloat16"), ("Cast", "float16")],
        [("Cast", "float64")],
        [("Cast", "int8")],
    ],
    ids=["no cast", "other use", "two types", "larger", "no float"],
)
def test_what_is_used_in_any_other_way_is_sent_as_it_is(readers):
    assert _pulled(*readers).dtype == "float32"


def _pushed(*nodes):
    """What is sent for the last of (op, dtype) worker nodes, each made from the one before it."""
    listed = [
        (f"n{i}", op, "", [f"n{i - 1}:y:0"] if i else [], dtype)
        for i, (op, dtype) in enumerate(nodes)
    ]
    return wire.pushed_tensor(_graph(listed), f"n{len(nodes) - 1}:y:0")


def test_what_was_cast_from_a_smaller_type_is_sent_in_that():
    assert _pushed(("MatMul", "bfloat16"), ("Cast", "float32")) == "n0:y:0"


def test_copies_of_a_cast_are_looked_through():
    copies = [("Identity", "float32")] * 2
    assert _pushed(("MatMul", "bfloat16"), ("Cast", "float32"), *copies) == "n0:y:0"


@pytest.mark.parametrize(
    "nodes",
    [
        [("MatMul", "float32")],
        [("MatMul", "float64"), ("Cast", "float32")],
        [("MatMul", "int8"), ("Cast", "float32")],
        [("MatMul", "bfloat16"), ("Cast", "float32"), ("Mul", "float32")],
    ],
    ids=["no cast", "larger", "no float", "used first"],
)
def test_what_was_made_in_any_other_way_is_sent_as_it_was_made(nodes):
    assert _pushed(*nodes) == f"n{len(nodes) - 1}:y:0"


def test_a_cast_that_waits_stays_where_it_is():
    graph = _graph(
        [
            ("a", "MatMul", "", [], "bfloat16"),
            ("b", "Cast", "", ["a:y:0", "^a"], "float32"),
        ]
    )
    assert wire.pushed_tensor(graph, "b:y:0") == "b:y:0"
