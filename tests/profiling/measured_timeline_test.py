import pytest

from tf_dynacomm import timeline
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan
from tf_dynacomm.profiling import measured_steps, measured_timeline

_COSTS = LayerCosts(
    [0.4, 0.2], [0.3, 0.2], [0.5, 0.4], [0.4, 0.2], 0.1, names=["1", "2"], apply_s=[0, 0]
)
_PLANS = [Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)]), Plan([(1, 2)], [(1, 2)])]
_SIZES = (400, 200)


@pytest.fixture
def measured(make_chain, make_traces):
    """The first step of a trace that the costs leave under a plan, as a timeline."""
    chain = make_chain([size // 4 for size in _SIZES])

    def measured_of(plan):
        reader = measured_steps.StepReader(
            *make_traces(_COSTS, plan), chain.graph, chain.layers, plan
        )
        return measured_timeline.timeline_of(reader.read()[0], _COSTS, plan)

    return measured_of


@pytest.mark.parametrize("plan", _PLANS)
def test_what_costs_leave_in_a_trace_is_what_they_predict(measured, plan):
    found, expected = measured(plan), timeline.simulate(_COSTS, plan)
    assert found.forward_s == pytest.approx(expected.forward_s)
    assert found.backward_s == pytest.approx(expected.backward_s)
    for phase in ("forward", "backward"):
        ours, theirs = getattr(found, phase), getattr(expected, phase)
        assert vars(ours.portions) == pytest.approx(vars(theirs.portions))
        assert [s.end_s for s in ours.transfers] == pytest.approx(
            [s.end_s for s in theirs.transfers]
        )
        assert [s.first for s in ours.computation] == [s.first for s in theirs.computation]


@pytest.mark.parametrize("plan", _PLANS)
def test_portions_add_up_to_the_step(measured, plan):
    found = measured(plan)
    assert sum(vars(found.portions).values()) == pytest.approx(found.iteration_s)


def test_stock_moves_every_layer_at_once():
    plan = measured_timeline.as_stock(3)
    assert plan.pull == ((1, 1), (2, 2), (3, 3))
    assert plan.push == ((3, 3), (2, 2), (1, 1))
    assert plan.credit == 3
