import threading
import time
import types

import pytest

from tf_dynacomm import planner
from tf_dynacomm.profiling import capture, trace


def _strategy(steps_finished=0, step=None):
    coordinator = types.SimpleNamespace(
        steps_finished=steps_finished, training_step=step, failing=False
    )
    return types.SimpleNamespace(coordinator=coordinator, tasks=None, scheduler="dynacomm")


def _step(layers=2, draws_seeded_numbers=False):
    return types.SimpleNamespace(
        plan=None,
        layers=["layer"] * layers,
        draws_seeded_numbers=draws_seeded_numbers,
        intervals_s=lambda since_s=0.0: [0.01],
    )


def _planner_threads():
    return [t for t in threading.enumerate() if t.name == "dynacomm-planner"]


def _outcome(made, strategy):
    """What a planner gives once the training has run some steps."""
    made.start()
    strategy.coordinator.steps_finished += 100
    deadline_s = time.monotonic() + 10
    while (outcome := made.take(0.0)) is None and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return outcome


def test_nothing_is_given_that_was_not_begun():
    assert planner.Planner(_strategy(), None).take(0.0) is None


def test_stopping_leaves_nothing_running():
    made = planner.Planner(_strategy(), None)
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
    outcome = _outcome(planner.Planner(strategy, None), strategy)
    assert isinstance(outcome, trace.TraceError)
    assert str(error) in str(outcome)


@pytest.mark.parametrize(
    ("step", "reason"),
    [(_step(layers=1), "one layer only"), (_step(draws_seeded_numbers=True), "seeded random")],
)
def test_a_step_that_cannot_be_planned_says_why(step, reason):
    strategy = _strategy(step=step)
    assert reason in str(_outcome(planner.Planner(strategy, None), strategy))


def test_a_training_that_failed_leaves_nothing_running(monkeypatch):
    monkeypatch.setattr(planner, "_FAILING_S", 0.05)
    strategy = _strategy()
    strategy.coordinator.failing = True
    made = planner.Planner(strategy, None)
    made.start()
    for thread in _planner_threads():
        thread.join(timeout=10)
    assert not _planner_threads()
