import threading
import time
import types

import pytest

from tf_dynacomm import planner, policy, trial
from tf_dynacomm.plan import Plan
from tf_dynacomm.profiling import capture, trace

_TASKS = capture.Tasks(("worker:1", "worker:2"), ("ps:1",))
_PLAN = Plan([(1, 2)], [(1, 2)])


def _strategy(steps_finished=0, step=None):
    coordinator = types.SimpleNamespace(
        steps_finished=steps_finished, training_step=step, failing=False
    )
    return types.SimpleNamespace(coordinator=coordinator, tasks=_TASKS, scheduler="dynacomm")


def _planner(strategy):
    return planner.Planner(strategy, policy.Policy(0.01, True), 0.01, None)


def _step(layers=2, draws_seeded_numbers=False, plan=_PLAN, functions_made=1):
    return types.SimpleNamespace(
        plan_of=lambda worker: plan,
        layers=["layer"] * layers,
        draws_seeded_numbers=draws_seeded_numbers,
        functions_made=functions_made,
        intervals_s=lambda since_s=0.0, worker=None: [0.01],
    )


def _planner_threads():
    return [t for t in threading.enumerate() if t.name == "dynacomm-planner"]


def _outcome(made, strategy):
    """What a planner gives once the training has run some steps."""
    made.start()
    deadline_s = time.monotonic() + 10
    while (outcome := made.take(0.0)) is None and time.monotonic() < deadline_s:
        strategy.coordinator.steps_finished += 1
        time.sleep(0.01)
    return outcome


def test_nothing_is_given_that_was_not_begun():
    assert _planner(_strategy()).take(0.0) is None


def test_stopping_leaves_nothing_running():
    made = _planner(_strategy())
    made.start()
    assert made.take(0.0) is None
    made.stop()
    assert not _planner_threads()


@pytest.mark.parametrize("error", [trace.TraceError("the port is closed"), OSError("disk full")])
def test_whatever_fails_is_told_and_not_raised(monkeypatch, error):
    def fail(*args):
        raise error

    monkeypatch.setattr(capture, "capture", fail)
    step = _step()
    strategy = _strategy(step=step)
    outcome = _outcome(_planner(strategy), strategy)
    assert isinstance(outcome, trace.TraceError)
    assert str(error) in str(outcome)


def test_slow_first_steps_do_not_make_the_trace_long(monkeypatch):
    durations_s = []

    def capture_nothing(tasks, duration_s, *args):
        durations_s.append(duration_s)
        raise trace.TraceError("nothing was captured")

    monkeypatch.setattr(capture, "capture", capture_nothing)
    step = _step()
    strategy = _strategy(step=step)
    # The first worker has run no two steps yet.
    step.intervals_s = lambda since_s=0.0, worker=None: [9.0, 0.5, 0.05] if worker else []
    _outcome(_planner(strategy), strategy)
    assert durations_s == pytest.approx([0.4, 1.2])  # Eight steps, then thrice as many.


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (_step(layers=1), "one layer only"),
        (_step(draws_seeded_numbers=True), "seeded random"),
        (_step(functions_made=16), "16 plans have been made"),
        (_step(plan=None), "runs as stock"),
    ],
)
def test_a_step_that_cannot_be_planned_says_why(step, reason):
    strategy = _strategy(step=step)
    assert reason in str(_outcome(_planner(strategy), strategy))


def test_a_training_that_failed_leaves_nothing_running(monkeypatch):
    monkeypatch.setattr(planner, "_FAILING_S", 0.05)
    strategy = _strategy()
    strategy.coordinator.failing = True
    made = _planner(strategy)
    made.start()
    for thread in _planner_threads():
        thread.join(timeout=10)
    assert not _planner_threads()


class _Trial:
    """A trial that takes until it is told to end."""

    def __init__(self, verdicts):
        self.verdicts, self.ends = verdicts, threading.Event()

    def run(self, stop):
        while not stop.is_set() and not self.ends.wait(0.01):
            pass
        return self.verdicts if self.ends.is_set() else None


_VERDICT = trial.Verdict(0, _PLAN, None, 1.0, 2.0, stays=True)


def test_a_trial_comes_before_the_next_decision():
    strategy = _strategy(step=_step(layers=1))
    made, tried = _planner(strategy), _Trial([_VERDICT])
    made.try_out(tried)
    made.start()
    assert made.take(0.0) is None
    tried.ends.set()
    assert "one layer only" in str(_outcome(made, strategy))
    assert (made.take_verdicts(), made.take_verdicts()) == ([_VERDICT], [])


def test_a_trial_that_is_stopped_goes_on_with_the_next_start():
    made, tried = _planner(_strategy()), _Trial([_VERDICT])
    made.try_out(tried)
    made.start()
    made.stop()
    assert made.take_verdicts() == []
    tried.ends.set()
    made.start()
    deadline_s = time.monotonic() + 10
    while not (verdicts := made.take_verdicts()) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    made.stop()
    assert verdicts == [_VERDICT]
