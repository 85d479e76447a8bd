import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm import trial
from tf_dynacomm.plan import Plan

_OLD = Plan([(1, 2)], [(1, 2)])
_NEW = Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)])


class _Step:
    """A step whose workers take `pace_s(worker, plan)` seconds for each."""

    def __init__(self, pace_s, workers=1):
        self.pace_s = pace_s
        self.plans = dict.fromkeys(range(workers), _OLD)
        self.history = []
        self.running = set(range(workers))

    def plan_of(self, worker):
        return self.plans[worker]

    def set_plan(self, plan, workers):
        self.plans.update(dict.fromkeys(workers, plan))
        self.history.append((plan, *workers))

    def intervals_s(self, since_s, worker, plan):
        if worker not in self.running:
            return np.zeros(0)
        return np.full(6 if worker == 0 else 5, self.pace_s(worker, plan))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(trial, "_POLL_S", 0.0)


def _verdicts(step, plans):
    return trial.Trial(step, plans).run(threading.Event())


def test_a_faster_plan_stays():
    step = _Step(lambda _, plan: 1.0 if plan == _NEW else 2.0)
    (verdict,) = _verdicts(step, {0: _NEW})
    assert verdict == trial.Verdict(0, _NEW, _OLD, 1.0, 2.0, stays=True)
    assert step.plans == {0: _NEW}


def test_a_slower_plan_gives_way_to_the_one_before():
    step = _Step(lambda _, plan: 2.0 if plan == _NEW else 1.0)
    (verdict,) = _verdicts(step, {0: _NEW})
    assert not verdict.stays
    assert str(verdict) == "the new plan was 100.0% slower on worker 0: the plan before it is back"
    assert step.plans == {0: _OLD}


@pytest.mark.parametrize(("stock_s", "stays"), [(0.9, True), (1.0, False), (1.1, False)])
def test_stock_stays_only_where_it_is_faster(stock_s, stays):
    step = _Step(lambda _, plan: stock_s if plan is None else 1.0)
    (verdict,) = _verdicts(step, {0: None})
    assert verdict.stays == stays
    assert step.plans == {0: None if stays else _OLD}


@pytest.mark.parametrize("plan", [_NEW, None])
@pytest.mark.parametrize("factor", [0.995, 1.005])
def test_a_difference_that_settles_nothing_is_said_to_be_noise(plan, factor):
    step = _Step(lambda _, p: factor if p == plan else 1.0)
    (verdict,) = _verdicts(step, {0: plan})
    settles_nothing = verdict.stays == (factor > 1)
    assert ("which may be noise" in str(verdict)) == settles_nothing


def test_a_plan_that_makes_no_difference_stays():
    step = _Step(lambda *_: 1.0)
    assert _verdicts(step, {0: _NEW})[0].stays


def test_each_worker_is_judged_by_its_own_steps():
    step = _Step(lambda worker, plan: 2.0 if worker == 1 and plan == _NEW else 1.0, workers=2)
    verdicts = _verdicts(step, {0: _NEW, 1: _NEW})
    assert [v.stays for v in verdicts] == [True, False]
    assert step.plans == {0: _NEW, 1: _OLD}


def test_the_plans_take_turns():
    step = _Step(lambda *_: 1.0)
    _verdicts(step, {0: _NEW})
    assert [plan for plan, _ in step.history[1:-1]] == [_NEW, _OLD] * 3


def test_a_worker_that_has_stopped_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(trial, "_BLOCK_STEPS", 1)
    step = _Step(lambda *_: 1.0, workers=2)
    step.running = {0}
    verdicts = _verdicts(step, {0: _NEW, 1: _NEW})
    assert [v.worker for v in verdicts] == [0]
    assert step.plans[1] == _OLD


def test_a_stopped_trial_leaves_the_new_plan_and_goes_on_later():
    step = _Step(lambda *_: 1.0)
    tried, stop = trial.Trial(step, {0: _NEW}), threading.Event()
    stop.set()
    assert tried.run(stop) is None
    assert step.plans == {0: _NEW}
    assert tried.run(threading.Event())[0].stays


def _blocks(seed, center_s, spread_s):
    random = np.random.default_rng(seed)
    return [center_s + spread_s * random.standard_normal(5) for _ in range(3)]


@given(st.integers(0, 1000), st.floats(0.01, 10), st.floats(0, 0.3))
def test_noise_around_a_common_pace_makes_at_most_one_of_two_slower(seed, center_s, spread):
    one, other = (_blocks(seed + i, center_s, spread * center_s) for i in (0, 5000))
    assert not (trial.is_slower(one, other) and trial.is_slower(other, one))
    assert not trial.is_slower(one, one)


def test_noise_is_seldom_taken_for_a_difference():
    slower = [
        trial.is_slower(_blocks(seed, 1.0, 0.1), _blocks(seed + 5000, 1.0, 0.1))
        for seed in range(1000)
    ]
    assert np.mean(slower) < 0.02


def test_a_clear_difference_is_seen_through_noise():
    slower = [
        trial.is_slower(_blocks(seed, 1.2, 0.05), _blocks(seed + 5000, 1.0, 0.05))
        for seed in range(200)
    ]
    assert np.mean(slower) > 0.95


def test_a_machine_that_slows_down_meanwhile_is_not_held_against_a_plan():
    paces_s = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    blocks = [np.full(5, pace_s) for pace_s in paces_s]
    assert not trial.is_slower(blocks[1::2], blocks[::2])
