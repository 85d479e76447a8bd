import threading

import pytest

from tf_dynacomm.plan import Plan
from tf_dynacomm.runtime import step_times, steps, tf_internals

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

    def with_function_def(base, function_def, inner):
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
        monkeypatch.setattr(tf_internals, "variables_of", lambda base: traced.graph.variables)
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
    assert step.times.latest() == [
        step_times.StepTime(1, 0.0, 0.0, first),
        step_times.StepTime(0, 5.0, 5.0, _ONE),
    ]


@pytest.fixture
def let_functions_call(monkeypatch):
    """Makes functions that are made from now on call another one."""

    def let(call):
        monkeypatch.setattr(tf_internals, "with_function_def", lambda *_: call)

    return let


def test_a_step_that_fails_has_no_time(step, let_functions_call):
    def fail():
        raise RuntimeError("lost")

    let_functions_call(fail)
    step.set_plan(_ONE)
    with pytest.raises(RuntimeError, match="lost"):
        step.run(0)
    assert step.times.latest() == []


def test_a_running_step_keeps_the_plan_that_it_began_with(step, let_functions_call):
    began, go_on = threading.Event(), threading.Event()

    def wait():
        began.set()
        go_on.wait()

    let_functions_call(wait)
    step.set_plan(_ONE)
    worker = threading.Thread(target=step.run, args=(0,))
    worker.start()
    began.wait()
    step.set_plan(step.first_plan)
    go_on.set()
    worker.join()
    assert step.times.latest()[0].plan == _ONE


def test_a_worker_can_have_a_plan_of_its_own(step, made):
    step.set_plan(_ONE, [1])
    step.set_plan(_TWO, [0])
    assert (step.plan_of(0), step.plan_of(1)) == (_TWO, _ONE)
    assert [step.run(worker) for worker in (0, 1)] == [(made[0],), (made[1],)]


def test_a_plan_for_one_worker_is_not_for_others(step):
    step.set_plan(_ONE, [0])
    assert (step.plan_of(0), step.plan_of(3)) == (_ONE, step.first_plan)


def test_the_plan_of_a_step_is_the_one_that_most_workers_follow(step):
    for worker in range(3):
        step.run(worker)
    step.set_plan(_ONE, [0])
    assert step.plan == step.first_plan
    step.set_plan(_ONE, [1])
    assert step.plan == _ONE


def test_equal_plans_share_one_function(step, made):
    step.set_plan(_ONE, [0])
    step.set_plan(Plan([(1, 2)], [(1, 2)]), [1])
    assert step.run(0) == step.run(1)
    assert len(made) == 2


def test_a_plan_for_all_ends_those_of_single_workers(step):
    step.set_plan(_ONE, [1])
    step.set_plan(_TWO)
    assert step.plan_of(1) == _TWO


def test_without_a_plan_the_step_runs_as_traced(step):
    step.set_plan(None)
    assert step.run(0, "x") == ("as traced", "x")


@pytest.fixture
def loaded(monkeypatch):
    """What workers have been made to load: (function, inputs)."""
    calls = []
    monkeypatch.setattr(tf_internals, "call_inputs", lambda base, args, kwargs: (args, kwargs))
    monkeypatch.setattr(
        tf_internals, "load", lambda function, inputs: calls.append((function(), inputs)) or True
    )
    return calls


def _load_in_background(step, plan, worker):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(step.load(plan, worker, 60.0, threading.Event()))
    )
    thread.start()
    while worker not in step._wanted_inputs:
        pass
    return thread, results


def test_a_worker_loads_a_plan_with_the_inputs_of_its_next_step(step, made, loaded):
    thread, results = _load_in_background(step, _ONE, 1)
    for worker, argument in ((0, "zero"), (1, "one"), (1, "two")):
        step.run(worker, argument)
    thread.join()
    assert results == [True]
    assert loaded == [((made[1],), (("one",), {}))]


def test_loading_gives_up_on_a_worker_that_runs_no_step(step, loaded):
    assert not step.load(_ONE, 0, 0.0, threading.Event())
    stop = threading.Event()
    stop.set()
    assert not step.load(_ONE, 0, 60.0, stop)
    assert (loaded, step._wanted_inputs) == ([], {})


def test_functions_that_are_not_in_force_can_be_dropped(step, made):
    step.set_plan(_ONE, [0])
    step.prepare(Plan(_TWO.pull, _TWO.push, credit=2))
    step.forget_unused()
    for plan in (_ONE, step.first_plan):
        step.prepare(plan)
    assert len(made) == step.functions_made == 3
    step.prepare(Plan(_TWO.pull, _TWO.push, credit=2))
    assert len(made) == step.functions_made == 4


def test_functions_that_are_to_be_in_force_are_kept(step, made):
    step.set_plan(_ONE)
    step.forget_unused(besides=[step.first_plan, None])
    assert set(step.known_plans()) == {_ONE, step.first_plan}
    assert step.known_plans()[0] == _ONE
