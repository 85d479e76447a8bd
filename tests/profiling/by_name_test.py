import pytest

from tf_dynacomm.profiling import by_name, trace

_GRADIENT = "gradient_tape/net"


def _step(begin):
    """`net/a` is pulled in 1 s of the link and `net/b` in 3 s, half of the time together."""
    worker, ps = trace.StepTrace(), trace.StepTrace()
    a, b = "net/a/MatMul/ReadVariableOp", "net/b/ReadVariableOp"
    worker.transfers = {
        a: trace.Transfer(a, begin, begin + 2),
        b: trace.Transfer(b, begin, begin + 4),
        "metric/ReadVariableOp": trace.Transfer("metric/ReadVariableOp", begin, begin + 4),
    }
    for node, start, end in (
        ("net/a/MatMul", 2, 3), ("fused", 3, 3.5), ("net/b/MatMul", 4, 6),
        (f"{_GRADIENT}/b/MatMul", 6, 7), (f"{_GRADIENT}/a/MatMul", 7, 9),
    ):  # fmt: skip
        worker.operations.append(trace.Operation(node, begin + start, begin + end))
    for layer, sent, arrived in (("b", 7, 10), ("a", 9, 11)):
        source = f"{_GRADIENT}/{layer}/MatMul"
        worker.sent_s[source] = begin + sent
        ps.transfers[source] = trace.Transfer(source, begin, begin + arrived)
    return worker, ps


@pytest.fixture
def traces():
    steps = [_step(100.0 * number) for number in range(3)]
    worker, ps = ({n: step[host] for n, step in enumerate(steps)} for host in (0, 1))
    return trace.HostTrace("worker", worker), {"ps0": trace.HostTrace("ps0", ps)}


def test_layers_are_the_scopes_whose_gradients_are_sent_in_forward_order(traces):
    measurement, steps = by_name.measure_by_name(*traces)
    assert measurement.costs.names == ("net/a", "net/b")
    assert len(steps) == measurement.steps == 3


def test_operations_count_by_name_and_others_for_the_one_before(traces):
    measurement, _ = by_name.measure_by_name(*traces)
    assert measurement.costs.forward_s.tolist() == pytest.approx([1.5, 2])
    assert measurement.costs.backward_s.tolist() == pytest.approx([2, 1])
    assert measurement.matched_share == pytest.approx(6 / 6.5)


def test_tensors_under_way_at_once_share_the_link(traces):
    measurement, _ = by_name.measure_by_name(*traces)
    assert measurement.costs.pull_s.tolist() == pytest.approx([1, 3])
    assert measurement.costs.push_s.tolist() == pytest.approx([1.5, 2.5])
    assert measurement.costs.overhead_s == pytest.approx((2, 2))
    assert measurement.down.rate_bytes_per_s != measurement.down.rate_bytes_per_s  # Not known.


def test_a_trace_whose_names_tell_nothing_is_an_error(traces):
    worker, ps = traces
    for step in worker.steps.values():
        step.transfers = {"dynacomm/pull_1/ps0/float32/pack": trace.Transfer("x", 0.0, 1.0)}
    with pytest.raises(trace.TraceError, match=r"trace of worker.*was not saved beside it"):
        by_name.measure_by_name(worker, ps)


def test_a_trace_without_steps_is_an_error():
    with pytest.raises(trace.TraceError, match="trace of idle holds no whole step"):
        by_name.measure_by_name(trace.HostTrace("idle", {}), {})


@pytest.mark.parametrize(
    ("read", "scope"),
    [
        ("net/conv/Conv2D/ReadVariableOp", "net/conv"),
        ("net/norm/ReadVariableOp_1", "net/norm"),
        ("MatMul/ReadVariableOp", "MatMul"),
        ("ReadVariableOp", None),
        ("net/conv/Conv2D", None),
    ],
)
def test_the_layer_of_a_read_is_its_scope(read, scope):
    assert by_name.scope_of(read) == scope
