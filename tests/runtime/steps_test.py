import threading

import numpy as np
import pytest

from tf_dynacomm.plan import Plan
from tf_dynacomm.runtime import steps, tf_internals

_ONE = Plan([(1, 2)], [(1, 2)])
_TWO = Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)])


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""

    class Clock:
        now_s = 0.0

        def perf_counter(self):
            return self.now_s

    clock = Clock()
    monkeypatch.setattr(steps, "time", clock)
    return clock


@pytest.fixture
def made(monkeypatch):
    """Stands in for TensorFlow's functions: each returns its own definition's name."""
    names = []

    def with_function_def(base, function_def):
        names.append(function_def.signature.name)
        return lambda *args: (names[names.index(function_def.signature.name)], *args)

    monkeypatch.setattr(tf_internals, "with_function_def", with_function_def)
    return names


@pytest.fixture
def make_step(monkeypatch, made):
    """Makes a `Step` of a traced step, whose variables live on PS tasks only in its graph."""

    class Base:
        def __init__(self, traced):
            self.function_def = traced.function_def
            self.inference_fn = traced.concrete.inference_fn

        def __call__(self, *args):
            return "as traced", *args

    def make(traced, **kwargs):
        monkeypatch.setattr(tf_internals, "step_graph_of", lambda base: traced.graph)
        return steps.Step(Base(traced), **kwargs)

    return make


@pytest.fixture
def step(make_step, momentum_step):
    """A step of two layers."""
    return make_step(momentum_step)


def test_a_step_begins_with_the_starting_plan(step):
    assert step.names == ("dense_1", "dense_2")
    assert step.plan == step.first_plan == step.starting_plan()
    assert step.plan.pull == ((1, 1), (2, 2))


def test_a_step_that_is_not_scheduled_runs_as_traced(make_step, momentum_step, made):
    step = make_step(momentum_step, scheduled=False)
    assert (step.plan, step.first_plan) == (None, None)
    assert step.run(0, "x") == ("as traced", "x")
    assert made == []


def test_a_step_that_pulls_nothing_runs_as_traced(make_step, make_program):
    step = make_step(make_program().trace(lambda x: x + 1))
    assert (step.plan, step.layers) == (None, ())
    assert step.run(0, "x") == ("as traced", "x")


def test_a_step_trains_if_it_pushes(make_step, momentum_step, evaluation_step):
    assert make_step(momentum_step).trains
    assert not make_step(evaluation_step).trains


def test_a_new_plan_is_what_runs_next(step, made):
    step.set_plan(_ONE)
    assert (step.plan, step.first_plan) == (_ONE, step.starting_plan())
    assert len(made) == 2
    assert step.run(0, "x") == (made[1], "x")


def test_preparing_a_plan_does_not_switch_to_it(step, made):
    first = step.plan
    step.prepare(_ONE)
    assert (step.plan, step.run(0)) == (first, (made[0],))
    step.set_plan(_ONE)
    assert step.run(0) == (made[1],)
    assert len(made) == 2


def test_going_back_to_a_plan_makes_nothing(step, made):
    for plan in (_ONE, _TWO, _ONE, step.first_plan):
        step.set_plan(plan)
    assert len(made) == 2  # `_TWO` cuts as the starting plan does.
    assert step.run(0) == (made[0],)


def test_plans_of_different_credit_are_different_functions(step, made):
    step.set_plan(Plan(_TWO.pull, _TWO.push, credit=2))
    assert len(made) == 2


def test_the_latest_eight_functions_are_kept(step, made):
    for credit in range(2, 10):
        step.set_plan(Plan(_TWO.pull, _TWO.push, credit=credit))
    step.set_plan(Plan(_TWO.pull, _TWO.push, credit=2))
    assert len(made) == 9
    step.set_plan(_TWO)
    step.set_plan(Plan(_TWO.pull, _TWO.push, credit=2))
    assert len(made) == 10


@pytest.mark.parametrize("use", ["prepare", "set_plan"])
def test_a_plan_for_other_layers_is_refused(step, use):
    names = [f"conv_{i}" for i in range(5)]
    other = Plan([(1, 5)], [(1, 5)], names=names)
    expected = r"layers conv_0, conv_1, conv_2, … \(5 in all\); this step has dense_1, dense_2\."
    with pytest.raises(ValueError, match=expected):
        getattr(step, use)(other)
    assert step.plan == step.first_plan


def test_a_refused_plan_leaves_the_function(step, made):
    with pytest.raises(ValueError, match="3 layers"):
        step.set_plan(Plan([(1, 3)], [(1, 3)]))
    assert step.run(0) == (made[0],)


def test_times_tell_worker_and_plan(step, clock):
    first = step.plan
    step.run(1)
    clock.now_s = 5.0
    step.set_plan(_ONE)
    step.run(0)
    assert step.times() == [steps.StepTime(1, 0.0, 0.0, first), steps.StepTime(0, 5.0, 5.0, _ONE)]


def test_a_step_that_fails_has_no_time(step, monkeypatch):
    def fail():
        raise RuntimeError("lost")

    monkeypatch.setattr(step, "_current", fail)
    with pytest.raises(RuntimeError, match="lost"):
        step.run(0)
    assert step.times() == []


def test_intervals_are_from_start_to_start_of_one_worker(step, clock):
    for now_s, worker in ((0.0, 0), (0.5, 1), (1.0, 0), (2.5, 1), (4.0, 0)):
        clock.now_s = now_s
        step.run(worker)
    np.testing.assert_array_equal(sorted(step.intervals_s()), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(step.intervals_s(since_s=1.0), [3.0])


def test_there_are_no_intervals_before_two_steps(step):
    assert step.intervals_s().shape == (0,)
    step.run(0)
    assert step.intervals_s().shape == (0,)


def test_a_running_step_keeps_the_plan_that_it_began_with(step, monkeypatch):
    began, go_on = threading.Event(), threading.Event()

    def wait():
        began.set()
        go_on.wait()

    monkeypatch.setattr(step, "_current", wait)
    worker = threading.Thread(target=step.run, args=(0,))
    worker.start()
    began.wait()
    step.set_plan(_ONE)
    go_on.set()
    worker.join()
    assert step.times()[0].plan == step.first_plan
