import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm.profiling import compute, link, measure, measured_steps, stock, trace


def _sent(*spans, size_bytes=100):
    return [stock.Sent(1, size_bytes, start_s, end_s) for start_s, end_s in spans]


def test_the_link_moves_all_bytes_while_any_tensor_is_under_way():
    samples = stock.samples(_sent((0, 4), (1, 2), (6, 8)))
    assert samples == [(0.0, 1), (300.0, 6)]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=8),
)
def test_busy_time_is_the_moments_in_which_anything_moves(spans):
    busy = {t for start, length in spans for t in range(start, start + length)}
    (_, (_, busy_s)) = stock.samples(_sent(*((a, a + d) for a, d in spans)))
    assert busy_s == len(busy)


def test_tensors_are_known_by_their_makers(make_chain):
    chain = make_chain([10, 20])
    found = stock.tensors(chain.graph, chain.layers)
    assert found.pulls == {"read_1": (1, 40), "read_2": (2, 80)}
    assert found.pushes == {"dw_1": (1, 40), "dw_2": (2, 80)}


def test_a_pruned_identity_is_sent_under_the_name_of_its_maker(make_step):
    step = make_step(
        [
            ("x", "Identity", ["batch"]),
            ("read_1", "ReadVariableOp", ["v_1"]),
            ("fwd_1", "MatMul", ["x:o:0", "read_1:value:0"]),
            ("grad_1", "MatMul", ["x:o:0", "fwd_1:o:0"]),
            ("dw_1", "Identity", ["grad_1:o:0"]),
            ("set_1", "AssignSubVariableOp", ["v_1", "dw_1:o:0"]),
        ],
        {"1": 10},
    )
    assert list(stock.tensors(step.graph, step.layers).pushes) == ["grad_1"]


@pytest.fixture
def stock_traces():
    """Steps of a chain of two as stock runs it: all is asked for at once and shares the link."""
    worker, ps = {}, {}
    for number in range(3):
        begin = 100.0 * number
        here, there = trace.StepTrace(), trace.StepTrace()
        here.transfers = {
            "read_1": trace.Transfer("read_1", begin, begin + 1.0),
            "read_2": trace.Transfer("net/read_2", begin, begin + 4.0),
        }
        here.operations = [
            trace.Operation("fwd_1", begin + 1, begin + 2),
            trace.Operation("fwd_2", begin + 4, begin + 7),
            trace.Operation("dw_2", begin + 7, begin + 8),
            trace.Operation("dw_1", begin + 8, begin + 9),
        ]
        here.sent_s = {"dw_2": begin + 8, "dw_1": begin + 9}
        there.transfers = {
            "dw_2": trace.Transfer("dw_2", begin, begin + 13),
            "dw_1": trace.Transfer("dw_1", begin, begin + 10),
        }
        there.operations = [trace.Operation("set_2", begin + 13, begin + 13.5)]
        worker[number], ps[number] = here, there
    return trace.HostTrace("worker", worker), {"ps0": trace.HostTrace("ps0", ps)}


def test_costs_of_stock_are_measured(make_chain, stock_traces):
    chain = make_chain([100, 300])
    found = measure.measure(*stock_traces, chain.graph, chain.layers, None)
    assert found.down == link.Link(pytest.approx(1.0), pytest.approx(1600 / 3))
    assert found.up == link.Link(pytest.approx(1.0), pytest.approx(1600 / 4))
    assert found.costs.forward_s.tolist() == pytest.approx([1, 3])
    assert found.costs.apply_s.tolist() == pytest.approx([0, 0.5])
    assert found.span_s == pytest.approx(13.5)


def test_steps_of_stock_show_what_was_moved_when(make_chain, stock_traces):
    chain = make_chain([100, 300])
    reader = measured_steps.StepReader(*stock_traces, chain.graph, chain.layers, None)
    first = reader.read()[0]
    assert [(m.first, m.size_bytes, m.end_s) for m in first.pulls] == [
        (1, 400, 1.0),
        (2, 1200, 4.0),
    ]
    assert [(m.first, m.start_s, m.end_s) for m in first.pushes] == [(1, 9.0, 10.0), (2, 8.0, 13.0)]


def test_a_step_of_stock_that_is_cut_off_is_left_out(make_chain, stock_traces):
    chain = make_chain([100, 300])
    del stock_traces[1]["ps0"].steps[2].transfers["dw_1"]
    assert measure.measure(*stock_traces, chain.graph, chain.layers, None).steps == 2


def test_names_may_have_what_grappler_puts_before_them(make_chain, stock_traces):
    names = compute.NameTable(make_chain([100, 300]).graph)
    here = stock_traces[0].steps[0]
    here.transfers = {"loop/body/read_1": here.transfers["read_1"]}
    assert [s.layer for s in stock.pulls(here, {"read_1": (1, 400)}, names)] == [1]
