"""Trainings that planning is not for: too short, or too small to gain by it."""

import threading
import time

import pytest

import tf_dynacomm
from tests.cluster import programs
from tests.faults import runs
from tf_dynacomm.runtime import step_function

pytestmark = pytest.mark.cluster


class _Slow:
    """A function that takes longer when it is called."""

    def __init__(self, function, delay_s=0.05):
        self._function, self._delay_s = function, delay_s

    def __call__(self, *args, **kwargs):
        time.sleep(self._delay_s)
        return self._function(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._function, name)


@pytest.fixture
def slow_plans(monkeypatch):
    """Lets a step take longer under whatever plan, but not as stock."""
    with_plan = step_function.StepFunction.with_plan
    monkeypatch.setattr(
        step_function.StepFunction, "with_plan", lambda self, plan: _Slow(with_plan(self, plan))
    )


def test_planning_that_does_not_pay_is_given_up_and_told(cluster, slow_plans):
    run, replan = runs.Run(cluster, stock=False), tf_dynacomm.ReplanCallback(replan_every=10)

    def is_stock():
        step = run.strategy.coordinator.training_step
        told = " ".join(r.reason or "" for r in replan.reports)
        return all(
            step.plan_of(w) is None and f"faster on worker {w}: it stays" in told for w in (0, 1)
        )

    run.train(lambda run: runs.wait_until(lambda: replan.reports and is_stock()), [replan])
    assert "running as stock was" in " ".join(r.reason or "" for r in replan.reports)


@pytest.mark.parametrize("steps", [3, 20])
def test_one_short_epoch_keeps_the_starting_plan_and_says_so(cluster, steps):
    run, replan = runs.Run(cluster, stock=False), tf_dynacomm.ReplanCallback()
    run.model.fit(runs.data(), epochs=1, steps_per_epoch=steps, verbose=0, callbacks=[replan])
    step, (report,) = run.strategy.coordinator.training_step, replan.reports
    assert {time.plan for time in step.times.latest()} == {step.starting_plan()}
    assert not report.replanned
    assert report.reason
    assert not [t for t in threading.enumerate() if t.name == "dynacomm-planner"]


def test_an_evaluator_in_the_cluster_is_not_waited_for(cluster):
    strategy = programs.make_strategy({**cluster.cluster_spec, "evaluator": ["127.0.0.1:1"]})
    assert len(strategy.tasks.workers) == 2
