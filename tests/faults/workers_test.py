"""Workers that vanish, stop or lose their link: training goes on, and so does planning."""

import pytest

import tf_dynacomm
from tests.faults import runs, scenarios

pytestmark = pytest.mark.cluster


@pytest.fixture(params=scenarios.scenarios(), ids=lambda scenario: scenario.name)
def scenario(request):
    return request.param


def _measured_after(run, replan):
    """Whether an epoch was planned from a trace that was begun now or later."""
    now = run.epochs + 1
    return lambda: any(r.matched_share is not None for r in replan.reports[now:])


def test_training_and_planning_go_on(request, scenario):
    name = "cluster_over_links" if scenario.over_links else "cluster"
    run = runs.Run(request.getfixturevalue(name), stock=False)
    replan = tf_dynacomm.ReplanCallback(min_gain=-1.0)  # So that plans do change.
    goes_on = []

    def planned():
        goes_on.append(goes_on[0] if goes_on else _measured_after(run, replan))
        return goes_on[0]()

    seen = scenario.observe(run, [replan, runs.Pauses()], planned)
    print(seen)
    assert seen.steps_lost == 0
    step = run.strategy.coordinator.training_step
    plan = step.plan_of(scenarios.WORKER)
    assert plan is None or plan.names == step.names
    if not scenario.returns:
        scenarios.heal(run)
