"""A chain of layers made by hand, and the traces that its steps leave."""

import dataclasses

import pytest
from tensorflow.core.framework import function_pb2

from tf_dynacomm.profiling import trace
from tf_dynacomm.runtime import layers, step_graph

_PS = "/job:ps/replica:0/task:0/device:CPU:0"


@dataclasses.dataclass
class HandMadeStep:
    """A graph and its layers."""

    graph: step_graph.StepGraph
    layers: tuple[layers.Layer, ...]


def _make_step(nodes, sizes) -> HandMadeStep:
    """Makes a step of (name, op, inputs) nodes.

    `read_<i>` reads variable `v_<i>` of `sizes[i]` float32 elements, `dw_<i>` is its gradient. The
    step returns what its last node makes.
    """
    definition = function_pb2.FunctionDef()
    for name, op, inputs in nodes:
        definition.node_def.add(name=name, op=op, input=inputs)
    definition.ret["last"] = f"{nodes[-1][0]}:o:0"
    variables = {f"v_{i}": step_graph.Variable(f"v_{i}", f"{i}/v", True, _PS) for i in sizes}

    def type_of(tensor):
        number = step_graph.producer(tensor).rpartition("_")[2]
        return step_graph.TensorType("float32", (sizes[number],), 4)

    graph = step_graph.StepGraph(definition, variables, type_of)
    return HandMadeStep(graph, layers.layer_table(graph))


@pytest.fixture(scope="session")
def make_step():
    return _make_step


@pytest.fixture(scope="session")
def make_chain():
    """Makes a chain of layers with so many elements each: each layer needs the one before it."""

    def chain(sizes) -> HandMadeStep:
        count = len(sizes)
        nodes = [("x", "Identity", ["batch"])]
        for i in range(1, count + 1):
            before = f"fwd_{i - 1}:o:0" if i > 1 else "x:o:0"
            nodes.append((f"read_{i}", "ReadVariableOp", [f"v_{i}"]))
            nodes.append((f"fwd_{i}", "MatMul", [before, f"read_{i}:value:0"]))
        nodes.append((f"dy_{count}", "LossGrad", [f"fwd_{count}:o:0"]))
        for i in range(count, 0, -1):
            before = f"fwd_{i - 1}:o:0" if i > 1 else "x:o:0"
            if i > 1:
                nodes.append((f"dy_{i - 1}", "MatMul", [f"dy_{i}:o:0", f"read_{i}:value:0"]))
            nodes.append((f"dw_{i}", "MatMul", [before, f"dy_{i}:o:0"]))
            nodes.append((f"set_{i}", "AssignSubVariableOp", [f"v_{i}", f"dw_{i}:o:0"]))
        return _make_step(nodes, {str(i): size for i, size in enumerate(sizes, start=1)})

    return chain


@pytest.fixture(scope="session")
def make_traces():
    """Makes the traces that a chain's steps leave on the worker and `ps0`, from known costs.

    The PS's clock may be ahead of the worker's, and its part of the step begin late.
    """

    def traces(costs, plan, num_steps=3, **kwargs):
        steps = [_step_traces(costs, plan, 10.0 * i, **kwargs) for i in range(num_steps)]
        worker, ps = ({i: s[host] for i, s in enumerate(steps)} for host in (0, 1))
        return trace.HostTrace("worker", worker), {"ps0": trace.HostTrace("ps0", ps)}

    return traces


def _step_traces(costs, plan, begun_s, ps_ahead_s=0.0, ps_late_s=0.0):
    """Plays one step: everything starts as soon as the model lets it."""
    worker, ps = trace.StepTrace(), trace.StepTrace()
    now_s = link_s = begun_s
    for number, (first, last) in enumerate(plan.pull, start=1):
        node = f"dynacomm/pull_{number}/ps0/float32/pack"
        ps.sent_s[node] = link_s + ps_ahead_s
        link_s += costs.overhead_pull_s + costs.pull_s[first - 1 : last].sum()
        worker.transfers[node] = trace.Transfer(node, begun_s - ps_late_s, link_s)
        token = f"dynacomm/pull_{number}/arrived"
        worker.sent_s[token] = link_s
        arrived_s = link_s + costs.overhead_push_s + ps_ahead_s
        ps.transfers[token] = trace.Transfer(token, begun_s, arrived_s)
        now_s = max(now_s, link_s)
        for i in range(first, last + 1):
            now_s = _run(worker, f"fwd_{i}", now_s, costs.forward_s[i - 1])
    link_s = 0.0
    for number, (first, last) in enumerate(plan.push, start=1):
        for i in range(last, first - 1, -1):
            share_s = costs.backward_s[i - 1] / (2 if i < len(costs) else 1)
            if i < len(costs):
                now_s = _run(worker, f"dy_{i}", now_s, share_s)
            now_s = _run(worker, f"dw_{i}", now_s, share_s)
        node = f"dynacomm/push_{number}/ps0/float32/pack"
        _run(worker, node, now_s, 0.0)
        worker.sent_s[node] = now_s
        sent_s = costs.overhead_push_s + costs.push_s[first - 1 : last].sum()
        link_s = max(now_s, link_s) + sent_s
        ps.transfers[node] = trace.Transfer(node, begun_s + ps_ahead_s, link_s + ps_ahead_s)
    return worker, ps


def _run(step, node, start_s, duration_s):
    step.operations.append(trace.Operation(node, start_s, start_s + duration_s))
    return start_s + duration_s
