import collections
import itertools
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_dynacomm.plan import Plan
from tf_dynacomm.runtime import rewrite, step_graph

_SEGMENT = re.compile(r"(?:.*/)?dynacomm/(pull|push)_(\d+)/.*/pack(_\d+)?")


class _Rewritten:
    """A rewritten step, and what its packs carry when one looks through them."""

    def __init__(self, step, function_def):
        self.graph = step_graph.StepGraph(function_def, step.graph.variables, lambda _: None)
        self._type_of = step.graph.type_of
        self._constants = {
            f"{node.name}:output:0": tf.make_ndarray(node.attr["value"].tensor)
            for node in function_def.node_def
            if node.name.startswith("dynacomm/constant")
        }
        self._first = {
            c.tensor: p.crossings[0].tensor
            for layer in step.layers
            for p in layer.pulls
            for c in p.crossings
        }
        self._first.update({p.crossing.tensor: p.tensor for x in step.layers for p in x.pushes})

    def packs(self, way):
        """The tensors in the packs of each segment number, one list for each pack."""
        found = collections.defaultdict(list)
        for name, node in self.graph.nodes.items():
            match = _SEGMENT.fullmatch(name)
            if match and match[1] == way:
                found[int(match[2])].append([self.folded(t) for t in _members(node)])
        return dict(found)

    def folded(self, tensor):
        """The tensor of the step as traced whose value `tensor` has.

        Reads of one variable have one value, that of the first of them; casts at the worker's end
        count as what they are made from.
        """
        name = step_graph.producer(tensor)
        if "dynacomm/" not in name:
            return self._first.get(tensor, tensor)
        node = self.graph.nodes[name]
        if node.op != "Slice":
            return self.folded(node.inputs[0])
        pack = self.graph.nodes[step_graph.producer(node.inputs[0])]
        pack = self.graph.nodes[step_graph.producer(pack.inputs[0])]
        members = [self.folded(member) for member in _members(pack)]
        begins = np.cumsum([0, *(self._type_of(member).size for member in members)])
        return members[begins.tolist().index(self._constants[node.inputs[1]])]

    def controls(self, name):
        """The step's own nodes that a node waits for by control, gathered or not."""
        for control in self.graph.nodes[name].controls:
            if control.startswith("dynacomm/gather/"):
                yield from self.controls(control)
            elif not control.startswith("dynacomm/"):
                yield control


def _members(pack):
    return pack.inputs[:-1] if pack.op == "ConcatV2" else pack.inputs


def _pulled(layers):
    """What a segment of these layers brings down."""
    return [p for layer in layers for p in layer.pulls]


def _pushed(layers):
    """What a segment of these layers sends up."""
    return [p for layer in layers for p in layer.pushes]


@given(data=st.data())
def test_any_plan_gives_a_graph_without_cycles(any_step, plans, rewritten, data):
    plan = data.draw(plans(len(any_step.layers)))
    graph = _Rewritten(any_step, rewritten(any_step, plan)).graph
    assert len(graph.topological) == len(graph.nodes)


@given(data=st.data())
def test_every_operation_reads_what_it_read_before(any_step, plans, rewritten, data):
    plan = data.draw(plans(len(any_step.layers)))
    after = _Rewritten(any_step, rewritten(any_step, plan))
    for name, node in any_step.graph.nodes.items():
        read = [after.folded(t) for t in after.graph.nodes[name].inputs]
        assert read == [after.folded(t) for t in node.inputs], name


@given(data=st.data())
def test_every_operation_waits_for_what_it_waited_for(any_step, plans, rewritten, data):
    plan = data.draw(plans(len(any_step.layers)))
    after = _Rewritten(any_step, rewritten(any_step, plan))
    for name, node in any_step.graph.nodes.items():
        assert sorted(after.controls(name)) == sorted(node.controls), name


@settings(max_examples=10)
@given(data=st.data())
def test_any_plan_computes_the_same_bits(any_step, plans, rewritten, data):
    plan = data.draw(plans(len(any_step.layers)))
    expected = any_step.run_here(any_step.function_def)
    found = any_step.run_here(rewritten(any_step, plan))
    for variable, a, b in zip(any_step.variables, expected, found, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=variable.name)


def test_a_step_changes_its_variables(momentum_step):
    """Else the test above would compare nothing."""
    after = momentum_step.run_here(momentum_step.function_def)
    changed = [not np.array_equal(a, b) for a, b in zip(after, momentum_step.initial, strict=True)]
    assert changed == [True] * (len(changed) - 1) + [False]  # The rate stays.


@given(data=st.data())
def test_a_pull_segment_makes_one_pack_for_each_ps_task_and_dtype(any_step, plans, rewritten, data):
    plan = data.draw(plans(len(any_step.layers)))
    packs = _Rewritten(any_step, rewritten(any_step, plan)).packs("pull")
    for number, (first, last) in enumerate(plan.pull, start=1):
        pulled = _pulled(any_step.layers[first - 1 : last])
        ends = {(p.crossings[0].source.task, p.type.dtype) for p in pulled}
        reads = [p.crossings[0].tensor for p in pulled]
        assert len(packs[number]) == len(ends)
        assert sorted(itertools.chain(*packs[number])) == sorted(reads)


@given(data=st.data())
def test_a_push_segment_makes_one_pack_for_each_ps_task_dtype_and_level(
    any_step, plans, rewritten, data
):
    plan = data.draw(plans(len(any_step.layers)))
    packs = _Rewritten(any_step, rewritten(any_step, plan)).packs("push")
    for number, (first, last) in enumerate(plan.push, start=1):
        pushed, found = _pushed(any_step.layers[first - 1 : last]), packs.get(number, [])
        ends = {(p.crossing.device, p.type.dtype, p.crossing.level) for p in pushed}
        assert len(found) == len(ends)
        assert sorted(itertools.chain(*found)) == sorted(p.tensor for p in pushed)


@given(data=st.data())
def test_no_variable_or_gradient_travels_outside_its_segment(any_step, plans, rewritten, data):
    plan = data.draw(plans(len(any_step.layers)))
    after = _Rewritten(any_step, rewritten(any_step, plan))
    moved = {c.tensor for x in any_step.layers for p in x.pulls for c in p.crossings}
    moved |= {p.tensor for p in _pushed(any_step.layers)}
    assert not moved & {c.tensor for c in after.graph.crossings}
    for name, node in after.graph.nodes.items():
        if "dynacomm/extra_" in name and name.endswith("/pack"):
            assert not moved & {after.folded(t) for t in _members(node)}


@pytest.mark.parametrize("credit", [1, 2])
def test_a_pull_waits_for_the_one_that_its_credit_names(
    make_chain, layer_by_layer, rewritten, credit
):
    chain = make_chain(4)
    graph = _Rewritten(chain, rewritten(chain, layer_by_layer(4, credit))).graph
    tokens = []
    for layer in chain.layers:
        reads = [graph.nodes[p.crossings[0].source.name] for p in layer.pulls]
        tokens.append({r.controls for r in reads})
    waits = [{(f"dynacomm/pull_{i}/arrived",)} for i in range(1, 5 - credit)]
    assert tokens == [{()}] * credit + waits


def test_a_token_waits_for_all_of_its_segment(branching_step, layer_by_layer, rewritten):
    graph = _Rewritten(branching_step, rewritten(branching_step, layer_by_layer(3))).graph
    token = graph.nodes["dynacomm/pull_2/arrived"]  # Two branches on two PS tasks.
    assert token.task == "worker"
    assert [graph.nodes[c].inputs[0] for c in token.controls] == [
        "dynacomm/pull_2/ps1/float32/pack:output:0",
        "dynacomm/pull_2/ps0/float32/pack:output:0",
    ]


def test_packs_are_made_where_they_are_sent_from(branching_step, layer_by_layer, rewritten):
    graph = _Rewritten(branching_step, rewritten(branching_step, layer_by_layer(3))).graph
    packs = [n for name, n in graph.nodes.items() if name.endswith("/pack")]
    tasks = {n.name.split("/")[1][:4]: set() for n in packs}
    for node in packs:
        way, end = node.name.split("/")[1][:4], node.name.split("/")[2]
        assert node.task == ("worker" if way == "push" else end.replace("ps", "ps:"))
        tasks[way].add(end)
    assert tasks == {"pull": {"ps0", "ps1"}, "push": {"ps0", "ps1"}}


def test_a_segment_of_one_tensor_is_not_laid_end_to_end(shared_step, layer_by_layer, rewritten):
    graph = _Rewritten(shared_step, rewritten(shared_step, layer_by_layer(3))).graph
    assert {n.op for name, n in graph.nodes.items() if name.endswith("/pack")} == {"Snapshot"}


def test_what_the_worker_casts_travels_in_the_smaller_type(bfloat16_step, rewritten):
    after = _Rewritten(bfloat16_step, rewritten(bfloat16_step, Plan([(1, 3)], [(1, 3)])))
    packs = {name: n for name, n in after.graph.nodes.items() if _SEGMENT.fullmatch(name)}
    sizes = {name.partition("dynacomm/")[2]: len(_members(n)) for name, n in packs.items()}
    assert sizes == {
        f"{segment}/ps0/{dtype}/pack": count
        for segment in ("pull_1", "push_1")
        for dtype, count in (("bfloat16", 4), ("float32", 1))
    }
    casts = [n.task for n in after.graph.nodes.values() if n.op == "Cast" and "dynacomm" in n.name]
    assert casts == ["ps:0"] * 8


def test_packs_are_capped_and_what_is_larger_goes_alone(momentum_step, rewritten, monkeypatch):
    monkeypatch.setattr(rewrite, "MAX_PACK_BYTES", 32)
    after = _Rewritten(momentum_step, rewritten(momentum_step, Plan([(1, 2)], [(1, 2)])))
    variables = {p.crossings[0].tensor: p.variable.name for p in _pulled(momentum_step.layers)}
    assert [[variables[t] for t in pack] for pack in after.packs("pull")[1]] == [
        ["dense_1/kernel"],
        ["dense_1/bias"],
        ["dense_2/kernel"],
        ["dense_2/bias"],
    ]
    token = after.graph.nodes["dynacomm/pull_1/arrived"]
    assert len(token.controls) == 4


@pytest.mark.parametrize("device", ["/device:GPU:0", "/job:worker/task:1/device:GPU:0", ""])
def test_packs_are_on_the_device_of_what_they_serve(make_program, rewritten, device):
    program = make_program()
    kernels = [program.variable(f"dense_{i}/kernel", tf.eye(4), ps=i % 2) for i in range(4)]

    def train(x):
        with tf.GradientTape() as tape:
            y = x
            for kernel in kernels:
                y = y @ kernel
        program.descend(kernels, tape.gradient(y, kernels))

    step = program.trace(train, worker=device)
    graph = _Rewritten(step, rewritten(step, Plan([(1, 4)], [(1, 4)]))).graph
    made = [n for n in graph.nodes.values() if "dynacomm/" in n.name]
    assert {n.device for n in made if n.task == "worker"} == {device}
    assert {n.task for n in made} == {"worker", "ps:0", "ps:1"}


def test_every_piece_is_the_first_output_of_its_node(any_step, rewritten):
    """Grappler takes any output of a node for its first one where it fuses operations."""
    after = rewritten(any_step, Plan([(1, len(any_step.layers))], [(1, len(any_step.layers))]))
    read = {i for n in after.node_def for i in n.input if "dynacomm/" in i and i[0] != "^"}
    assert {i.partition(":")[2] for i in read} <= {"output:0", "y:0"}


def test_what_arrives_is_named_beside_what_made_it(any_step, rewritten):
    """Grappler multiplies tensors of one element in the order of their names."""
    plan = Plan([(1, len(any_step.layers))], [(1, len(any_step.layers))])
    after = _Rewritten(any_step, rewritten(any_step, plan)).graph
    crossings = [p.crossing for p in _pushed(any_step.layers)]
    crossings += [p.crossings[0] for p in _pulled(any_step.layers)]
    for crossing in crossings:
        for name, index in crossing.readers:
            arrived = step_graph.producer(after.nodes[name].inputs[index])
            assert arrived == crossing.maker or arrived.startswith(f"{crossing.maker}/dynacomm/")


@given(data=st.data())
def test_pieces_are_at_aligned_places_where_their_size_is_aligned(any_step, plans, rewritten, data):
    after = rewritten(any_step, data.draw(plans(len(any_step.layers))))
    constants = {n.name: n.attr["value"].tensor for n in after.node_def if n.op == "Const"}
    for node in after.node_def:
        if node.op == "Slice" and "dynacomm/" in node.name:
            begin, size = (
                tf.make_ndarray(constants[i.partition(":")[0]]).item() for i in node.input[1:]
            )
            item_bytes = tf.as_dtype(node.attr["T"].type).size
            assert size * item_bytes % 64 != 0 or begin * item_bytes % 64 == 0, node.name


def test_statistics_of_one_level_travel_together_apart_from_gradients(
    make_statistics_step, rewritten
):
    step = make_statistics_step(3)
    after = _Rewritten(step, rewritten(step, Plan([(1, 1)], [(1, 1)])))
    extras = [n for name, n in after.graph.nodes.items() if re.fullmatch(r".*/extra_.*/pack", name)]
    assert [len(_members(n)) for n in extras] == [3]
    up = [c for c in after.graph.crossings if c.source.task == "worker"]
    (gradient,) = (p.crossing.maker for p in _pushed(step.layers))
    pack = f"{gradient}/dynacomm/push_1/ps0/float32/pack"
    assert [c.source.name for c in up] == [pack, extras[0].name]


def test_control_edges_from_a_task_to_a_node_cross_once(any_step, layer_by_layer, rewritten):
    plan = layer_by_layer(len(any_step.layers))
    after = _Rewritten(any_step, rewritten(any_step, plan)).graph
    for node in any_step.graph.nodes.values():
        tasks = [after.nodes[c].task for c in after.nodes[node.name].controls]
        remote = [t for t in tasks if t != node.task]
        assert len(remote) == len(set(remote)), node.name


def test_what_cannot_be_packed_travels_as_before(dynamic_step, layer_by_layer, rewritten):
    after = _Rewritten(dynamic_step, rewritten(dynamic_step, layer_by_layer(2))).graph
    unpackable = {c.tensor for c in dynamic_step.graph.crossings if not c.type.is_packable}
    assert len(unpackable) == 2  # The rows and their numbers.
    assert unpackable < {c.tensor for c in after.crossings}


def test_a_plan_without_pushes_leaves_a_step_that_trains_nothing(evaluation_step, rewritten):
    after = _Rewritten(evaluation_step, rewritten(evaluation_step, Plan([(1, 2)], [])))
    assert len(after.packs("pull")[1]) == 1
    assert after.packs("push") == {}


def test_the_step_as_traced_is_not_changed(momentum_step, layer_by_layer, rewritten):
    before = momentum_step.function_def.SerializeToString()
    new = rewritten(momentum_step, layer_by_layer(2))
    assert momentum_step.function_def.SerializeToString() == before
    assert new.signature.input_arg == momentum_step.function_def.signature.input_arg


def test_a_plan_for_other_layers_is_refused(momentum_step, layer_by_layer, rewritten):
    with pytest.raises(ValueError, match=r"`plan` is for 3 layers; this step has 2\."):
        rewritten(momentum_step, layer_by_layer(3))
