import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tf_dynacomm.runtime import step_graph

PS_0 = "/job:ps/replica:0/task:0/device:CPU:0"
PS_1 = "/job:ps/replica:0/task:1/device:CPU:0"


@pytest.mark.parametrize(
    ("device", "task"),
    [
        ("", "worker"),
        ("/device:CPU:0", "worker"),
        ("/job:worker/replica:0/task:3/device:CPU:0", "worker"),
        (PS_0, "ps:0"),
        ("/job:ps/task:12/device:CPU:0", "ps:12"),
    ],
)
def test_a_device_string_names_its_task(device, task):
    assert step_graph.task_of(device) == task


def test_sizes_of_a_tensor_are_those_of_its_shape():
    scalar, matrix = (step_graph.TensorType("float32", s, 4) for s in ((), (3, 5)))
    assert (scalar.size, scalar.size_bytes) == (1, 4)
    assert (matrix.size, matrix.size_bytes) == (15, 60)


@pytest.mark.parametrize(
    ("shape", "item_bytes", "packable"), [((2,), 4, True), (None, 4, False), ((2,), 0, False)]
)
def test_only_tensors_of_known_size_can_be_packed(shape, item_bytes, packable):
    assert step_graph.TensorType("float32", shape, item_bytes).is_packable == packable


def _graph(nodes, variables=()):
    """A graph of (name, op, device, inputs) nodes, all returned; tensors are float32 scalars."""
    definition = function_pb2.FunctionDef()
    for name, op, device, inputs in nodes:
        definition.node_def.add(name=name, op=op, device=device, input=inputs)
        definition.ret[name] = f"{name}:o:0"
    found = {a: step_graph.Variable(a, a, True, device) for a, device in variables}
    return step_graph.StepGraph(
        definition, found, lambda _: step_graph.TensorType("float32", (), 4)
    )


def test_inputs_and_control_inputs_are_told_apart():
    graph = _graph([("a", "A", "", []), ("b", "B", "", ["a:out:0", "^a"])])
    assert graph.nodes["b"].inputs == ("a:out:0",)
    assert graph.nodes["b"].controls == ("a",)


def test_an_operation_on_a_variable_runs_beside_it():
    graph = _graph([("read", "ReadVariableOp", "", ["v"])], [("v", PS_1)])
    assert graph.nodes["read"].task == "ps:1"


def test_an_operation_that_calls_a_function_stays_where_it_was_put():
    definition = function_pb2.FunctionDef()
    node = definition.node_def.add(name="if", op="If", input=["v"])
    node.attr["then_branch"].func.name = "body"
    variables = {"v": step_graph.Variable("v", "v", True, PS_0)}
    graph = step_graph.StepGraph(definition, variables, None)
    assert graph.nodes["if"].task == "worker"


def test_a_constant_goes_to_its_only_reader():
    graph = _graph(
        [
            ("one", "Const", "", []),
            ("shared", "Const", "", []),
            ("x", "Neg", PS_0, ["one:output:0"]),
            ("y", "Add", PS_0, ["x:y:0", "shared:output:0"]),
            ("z", "Neg", "", ["shared:output:0"]),
        ]
    )
    assert graph.nodes["one"].task == "ps:0"
    assert graph.nodes["shared"].task == "worker"


def test_readers_are_listed_once_in_program_order():
    graph = _graph(
        [("a", "A", "", []), ("b", "B", "", ["a:o:0", "a:o:1"]), ("c", "C", "", ["a:o:0"])]
    )
    assert graph.readers == {"a": ["b", "c"]}


def test_topological_order_heeds_data_and_control():
    graph = _graph(
        [("c", "C", "", ["b:o:0"]), ("b", "B", "", ["^a"]), ("a", "A", "", [])],
    )
    assert [n.name for n in graph.topological] == ["a", "b", "c"]


def test_a_level_counts_the_crossings_of_the_longest_path():
    graph = _graph(
        [
            ("a", "A", PS_0, []),
            ("b", "B", "", ["a:o:0"]),
            ("c", "C", "", ["b:o:0"]),
            ("d", "D", PS_1, ["c:o:0", "^a"]),
            ("e", "E", PS_0, ["a:o:0"]),
        ]
    )
    assert graph.level == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 0}


def test_a_control_edge_between_tasks_counts_as_a_crossing():
    graph = _graph([("a", "A", PS_0, []), ("b", "B", "", ["^a"])])
    assert graph.level == {"a": 0, "b": 1}
    assert graph.crossings == []


def test_a_tensor_crosses_once_for_each_device_that_reads_it():
    graph = _graph(
        [
            ("a", "A", PS_0, []),
            ("b", "B", "", ["a:o:0"]),
            ("c", "C", "", ["b:o:0", "a:o:0"]),
            ("d", "D", PS_1, ["a:o:0"]),
            ("e", "E", PS_0, ["a:o:0"]),
        ]
    )
    found = {(c.tensor, c.device): c.readers for c in graph.crossings}
    assert found == {("a:o:0", ""): (("b", 0), ("c", 1)), ("a:o:0", PS_1): (("d", 0),)}


def test_what_nothing_needs_neither_lives_nor_crosses():
    definition = function_pb2.FunctionDef()
    for name, op, device, inputs in [
        ("a", "A", PS_0, []),
        ("b", "B", "", ["a:o:0"]),
        ("dead", "C", "", ["a:o:0"]),
        ("waited_for", "D", "", []),
        ("set", "AssignVariableOp", PS_0, ["v", "b:o:0", "^waited_for"]),
        ("effect", "NoOp", "", []),
        ("read", "ReadVariableOp", "", ["v"]),
    ]:
        definition.node_def.add(name=name, op=op, device=device, input=inputs)
    definition.control_ret["effect"] = "effect"
    variables = {"v": step_graph.Variable("v", "v", True, PS_0)}
    graph = step_graph.StepGraph(
        definition, variables, lambda _: step_graph.TensorType("float32", (), 4)
    )
    assert graph.live == {"a", "b", "waited_for", "set", "effect"}
    assert [c.readers for c in graph.crossings if c.tensor == "a:o:0"] == [(("b", 0),)]


def test_a_read_does_not_write():
    graph = _graph(
        [("read", "ReadVariableOp", "", ["v"]), ("set", "AssignVariableOp", "", ["v", "read:o:0"])],
        [("v", PS_0)],
    )
    assert list(graph.written_by(graph.nodes["read"])) == []
    assert [v.name for v in graph.written_by(graph.nodes["set"])] == ["v"]


def test_a_traced_step_has_its_own_variables_and_types(momentum_step):
    graph = momentum_step.graph
    names = {v.name for v in graph.variables.values()}
    assert {"dense_1/kernel", "norm/moving_mean", "rate", "slot_0"} < names
    read = next(n for n in graph.nodes.values() if n.op == "ReadVariableOp")
    kernel = step_graph.TensorType(tf.float32.name, (4, 4), 4)
    assert graph.type_of(f"{read.name}:value:0") == kernel


@pytest.mark.parametrize(
    ("dtype", "item_bytes"),
    [("float32", 4), ("float16", 2), ("bfloat16", 2), ("int64", 8), ("bool", 1), ("string", 0)],
)
def test_items_have_the_bytes_of_their_type(make_program, dtype, item_bytes):
    """A text has no size that is known when the step is traced."""
    fill = "text" if dtype == "string" else tf.cast(1, dtype)
    step = make_program().trace(lambda x: tf.fill([3], fill, name="filled"))
    expected = step_graph.TensorType(dtype, (3,), item_bytes)
    assert step.graph.type_of("filled:output:0") == expected


def test_a_traced_step_crosses_down_at_level_1_and_up_at_level_2(momentum_step):
    levels = {(c.source.task, c.level) for c in momentum_step.graph.crossings}
    assert levels == {("ps:0", 1), ("worker", 2)}


def test_what_needs_an_update_of_the_same_step_is_two_levels_deeper(two_updates_step):
    levels = [p.crossing.level for layer in two_updates_step.layers for p in layer.pushes]
    assert levels == [4, 2]  # maker, whose gradient needs the judge's new value; judge.
