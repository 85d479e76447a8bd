import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm import schedulers, timeline
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan
from tf_dynacomm.profiling import link, measure, measured_steps, trace

_ELEMENTS = (1000, 500, 3000, 2000)
_THREE = Plan([(1, 1), (2, 3), (4, 4)], [(4, 4), (2, 3), (1, 1)])
_EACH = Plan([(i, i) for i in range(1, 5)], [(i, i) for i in range(4, 0, -1)])


@pytest.fixture(scope="module")
def chain(make_chain):
    return make_chain(_ELEMENTS)


def _costs(forward_s=(0.01, 0.02, 0.03, 0.04), backward_s=(0.02, 0.01, 0.05, 0.03),
           down=(0.001, 1e6), up=(0.002, 5e5)):  # fmt: skip
    """The costs of a chain whose links have (overhead, rate)."""
    size_bytes = 4.0 * np.array(_ELEMENTS)
    return LayerCosts(
        pull_s=size_bytes / down[1],
        forward_s=forward_s,
        backward_s=backward_s,
        push_s=size_bytes / up[1],
        overhead_s=(down[0], up[0]),
        names=[str(i) for i in range(1, 5)],
    )


@pytest.fixture(scope="module")
def measured(chain, make_traces):
    """Measures the trace that given costs leave under a plan."""

    def measured_of(costs, plan, prior=None, **kwargs):
        worker, ps = make_traces(costs, plan, **kwargs)
        return measure.measure(worker, ps, chain.graph, chain.layers, plan, prior)

    return measured_of


def _assert_equal(found, expected):
    for vector in ("pull_s", "forward_s", "backward_s", "push_s"):
        np.testing.assert_allclose(getattr(found, vector), getattr(expected, vector), rtol=1e-6)
    assert found.overhead_pull_s == pytest.approx(expected.overhead_pull_s)
    assert found.overhead_push_s == pytest.approx(expected.overhead_push_s)
    assert found.names == expected.names


@pytest.mark.parametrize("plan", [_THREE, _EACH])
def test_a_trace_gives_the_costs_that_made_it(measured, plan):
    measurement = measured(_costs(), plan)
    _assert_equal(measurement.costs, _costs())
    assert measurement.down == link.Link(pytest.approx(0.001), pytest.approx(1e6))
    assert measurement.up == link.Link(pytest.approx(0.002), pytest.approx(5e5))


_SECONDS = st.lists(st.integers(1, 100).map(lambda ms: ms / 1000), min_size=4, max_size=4)


@given(_SECONDS, _SECONDS)
def test_any_compute_is_given_back(measured, forward_s, backward_s):
    costs = _costs(forward_s, backward_s)
    found = measured(costs, _EACH).costs
    np.testing.assert_allclose(found.forward_s, forward_s, rtol=1e-6)
    np.testing.assert_allclose(found.backward_s, backward_s, rtol=1e-6)


def test_the_span_is_what_the_timeline_predicts(measured):
    costs = _costs()
    for plan in (_THREE, _EACH):
        predicted_s = timeline.simulate(costs, plan).iteration_s
        assert measured(costs, plan).span_s == pytest.approx(predicted_s)


def test_another_trace_makes_another_plan(measured):
    slow_link = _costs(down=(0.05, 1e6), up=(0.05, 5e5))
    plan = schedulers.get("dynacomm")
    found = plan(measured(_costs(), _THREE).costs)
    other = plan(measured(slow_link, _THREE).costs)
    assert (found, other) == (plan(_costs()), plan(slow_link))
    assert len(found.pull) > len(other.pull)


def test_a_slow_step_among_several_changes_nothing(measured, chain, make_traces):
    worker, ps = make_traces(_costs(), _THREE, num_steps=4)
    slow_worker, slow_ps = make_traces(_costs(forward_s=(1, 1, 1, 1), down=(2, 1e6)), _THREE)
    worker.steps[9], ps["ps0"].steps[9] = slow_worker.steps[0], slow_ps["ps0"].steps[0]
    found = measure.measure(worker, ps, chain.graph, chain.layers, _THREE)
    _assert_equal(found.costs, _costs())
    assert found.steps == 5


def test_steps_that_are_cut_off_are_left_out(measured, chain, make_traces):
    worker, ps = make_traces(_costs(), _THREE, num_steps=3)
    worker.steps[0].transfers.clear()
    found = measure.measure(worker, ps, chain.graph, chain.layers, _THREE)
    assert found.steps == 2


def test_the_clock_of_the_ps_may_differ(measured):
    """Costs from durations on one host are exact; the offset is known to within the overheads."""
    found = measured(_costs(), _EACH, ps_ahead_s=30.0)
    offset = found.offsets["ps0"]
    assert offset.low_s <= 30.0 <= offset.high_s
    assert found.costs.pull_s == pytest.approx(_costs().pull_s)
    np.testing.assert_allclose(found.costs.backward_s, _costs().backward_s, rtol=1e-6)


def test_the_wait_for_the_ps_to_begin_is_no_cost_of_the_link(measured):
    _assert_equal(measured(_costs(), _THREE, ps_late_s=0.5).costs, _costs())


def test_two_segments_are_enough(measured):
    plan = Plan([(1, 1), (2, 4)], [(3, 4), (1, 2)])
    _assert_equal(measured(_costs(), plan).costs, _costs())


@pytest.fixture
def with_unknown(chain, make_traces):
    """Measures a trace with unknown operations of so many seconds beside the 0.21 s of compute."""

    def measured_with(seconds):
        worker, ps = make_traces(_costs(), _THREE)
        for step in worker.steps.values():
            step.operations.insert(0, trace.Operation("unknown", -seconds, 0.0))
        return measure.measure(worker, ps, chain.graph, chain.layers, _THREE)

    return measured_with


def test_unknown_operations_lower_the_matched_share(with_unknown):
    found = with_unknown(0.07)
    assert found.matched_share == pytest.approx(0.75)
    _assert_equal(found.costs, _costs())


def test_a_trace_whose_operations_are_mostly_unknown_is_refused(with_unknown):
    with pytest.raises(trace.TraceError, match=r"of worker is of another model.* 50% of"):
        with_unknown(0.21)


def test_every_operation_of_a_chain_is_matched(measured):
    assert measured(_costs(), _THREE).matched_share == pytest.approx(1.0)


_ONE = Plan([(1, 4)], [(1, 4)])


def test_one_pull_segment_keeps_the_link_of_before(measured):
    prior = measured(_costs(), _THREE)
    found = measured(_costs(forward_s=(0.1, 0.1, 0.1, 0.1)), _ONE, prior)
    assert found.down == prior.down
    np.testing.assert_allclose(found.costs.forward_s, [0.1] * 4, rtol=1e-6)


def test_one_segment_without_a_prior_is_an_error(measured):
    with pytest.raises(trace.TraceError, match="All pulls of the plan in force have one size"):
        measured(_costs(), _ONE)


def test_one_segment_without_a_prior_takes_the_overhead_of_empty_tensors(chain, make_traces):
    worker, ps = make_traces(_costs(), _ONE)
    for number, step in worker.steps.items():
        there = ps["ps0"].steps[number]
        step.transfers["counter"] = trace.Transfer("counter", 0.0, 10.0 * number + 0.003)
        there.sent_s["counter"] = 10.0 * number
    found = measure.measure(worker, ps, chain.graph, chain.layers, _ONE)
    assert found.down.overhead_s == pytest.approx(0.003 + _costs().overhead_push_s)


@pytest.fixture
def with_hidden_rate(chain, make_traces):
    """Measures steps in whose pushes noise of 0.1 ms hides what bytes cost, besides 2 ms."""
    samples = [(0.0, 0.002), (4000.0, 0.0021), (8000.0, 0.0019), (14000.0, 0.002)]

    def measured_with(prior=None, down=(0.001, 1e6)):
        worker, ps = make_traces(_costs(down=down), _THREE)
        reader = measured_steps.StepReader(worker, ps, chain.graph, chain.layers, _THREE)
        steps = [dataclasses.replace(step, up_samples=samples) for step in reader.read()]
        return measure.of_steps("worker", steps, chain.layers, reader.offsets, prior)

    return measured_with


def test_a_rate_that_noise_hides_is_that_of_before(measured, with_hidden_rate):
    prior = measured(_costs(down=(0.001, 2e7), up=(0.002, 1e7)), _THREE)
    found = with_hidden_rate(prior)
    assert found.up == link.Link(pytest.approx(0.0011), prior.up.rate_bytes_per_s)
    assert found.down.rate_bytes_per_s == pytest.approx(1e6)


def test_without_one_it_is_that_of_the_other_direction(with_hidden_rate):
    found = with_hidden_rate(down=(0.001, 1e7))
    assert found.up.rate_bytes_per_s == found.down.rate_bytes_per_s == pytest.approx(1e7)


def test_a_hidden_rate_is_no_less_than_what_was_seen(with_hidden_rate):
    found = with_hidden_rate(down=(0.001, 1e5))
    assert found.up.rate_bytes_per_s == pytest.approx(14000 / 0.002)


def test_a_hidden_rate_lowers_confidence(measured, with_hidden_rate):
    certain = measured(_costs(), _THREE).confidence
    assert with_hidden_rate().confidence == pytest.approx(0.9 * certain)


def test_a_trace_of_another_plan_is_an_error(chain, make_traces):
    worker, ps = make_traces(_costs(), _EACH)
    with pytest.raises(trace.TraceError, match="trace of worker holds no whole step"):
        measure.measure(worker, ps, chain.graph, chain.layers, _THREE)


def test_bytes_of_segments_are_those_of_their_layers(chain):
    pull, push = measured_steps.segment_bytes(chain.layers, _THREE)
    assert pull == [4000, 14000, 8000]
    assert push == [8000, 14000, 4000]


def test_the_mean_of_workers_is_the_mean_of_their_costs(measured):
    fast, slow = measured(_costs(), _EACH), measured(_costs(forward_s=[0.1] * 4), _EACH)
    slow = dataclasses.replace(slow, matched_share=0.5, steps=2)
    mean = measure.mean([fast, slow])
    expected = (fast.costs.forward_s + slow.costs.forward_s) / 2
    np.testing.assert_allclose(mean.costs.forward_s, expected)
    assert mean.costs.names == fast.costs.names
    assert (mean.matched_share, mean.steps) == (pytest.approx(0.75), 2)
    assert mean.span_s == pytest.approx((fast.span_s + slow.span_s) / 2)


def test_the_mean_of_one_worker_is_its_own(measured):
    alone = measured(_costs(), _EACH)
    _assert_equal(measure.mean([alone]).costs, alone.costs)


def test_the_time_of_the_ps_is_part_of_the_costs_and_of_the_span(chain, make_traces):
    worker, ps = make_traces(_costs(), _THREE)
    for step in ps["ps0"].steps.values():
        last_s = max(t.arrived_s for t in step.transfers.values())
        step.operations.append(trace.Operation("set_1", last_s, last_s + 0.5))
    plain = measure.measure(*make_traces(_costs(), _THREE), chain.graph, chain.layers, _THREE)
    found = measure.measure(worker, ps, chain.graph, chain.layers, _THREE)
    assert found.costs.apply_s.tolist() == pytest.approx([0.5, 0, 0, 0])
    assert found.span_s == pytest.approx(plain.span_s + 0.5)
    assert timeline.simulate(found.costs, _THREE).iteration_s == pytest.approx(found.span_s)


def test_steps_that_a_loop_ran_and_that_cannot_be_told_apart_are_an_error(chain, make_traces):
    worker, ps = make_traces(_costs(), _THREE)
    for step in worker.steps.values():
        step.repeats = True
    with pytest.raises(trace.TraceError, match="several steps in each call"):
        measure.measure(worker, ps, chain.graph, chain.layers, _THREE)


def test_hosts_without_a_step_in_common_are_an_error(chain, make_traces):
    worker, ps = make_traces(_costs(), _THREE)
    ps["ps0"].steps.update({-1 - n: ps["ps0"].steps.pop(n) for n in list(ps["ps0"].steps)})
    with pytest.raises(trace.TraceError, match="no step in common"):
        measure.measure(worker, ps, chain.graph, chain.layers, _THREE)


def test_a_trace_without_transfers_is_an_error(chain):
    alone = trace.HostTrace("gpu", {1: trace.StepTrace([trace.Operation("fwd_1", 0.0, 1.0)])})
    with pytest.raises(trace.TraceError, match="trace of gpu holds no step that received anything"):
        measure.measure(alone, {}, chain.graph, chain.layers, _THREE)
