import numpy as np
import pytest

from tf_dynacomm.plan import Plan
from tf_dynacomm.runtime import step_times

_PLAN = Plan([(1, 2)], [(1, 2)])


def _times(*steps):
    """Times of steps: (worker, start, plan)."""
    times = step_times.StepTimes()
    for worker, start_s, plan in steps:
        times.add(step_times.StepTime(worker, start_s, start_s + 0.1, plan))
    return times


@pytest.fixture
def two_workers():
    return _times(*((w, s, _PLAN) for s, w in ((0.0, 0), (0.5, 1), (1.0, 0), (2.5, 1), (4.0, 0))))


def test_intervals_are_from_start_to_start_of_one_worker(two_workers):
    np.testing.assert_array_equal(sorted(two_workers.intervals_s()), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(two_workers.intervals_s(worker=1), [2.0])


def test_intervals_can_be_asked_for_since_a_time(two_workers):
    np.testing.assert_array_equal(two_workers.intervals_s(since_s=1.0), [3.0])


def test_there_are_no_intervals_before_two_steps():
    assert _times().intervals_s().shape == (0,)
    assert _times((0, 1.0, None)).intervals_s().shape == (0,)


def test_an_interval_in_which_the_plan_changes_does_not_count():
    times = _times((0, 0.0, None), (0, 1.0, None), (0, 3.0, _PLAN), (0, 6.0, _PLAN))
    np.testing.assert_array_equal(times.intervals_s(), [1.0, 3.0])


def test_intervals_can_be_asked_for_by_plan():
    times = _times((0, 0.0, None), (0, 1.0, None), (0, 3.0, _PLAN), (0, 6.0, _PLAN))
    np.testing.assert_array_equal(times.intervals_s(plan=None), [1.0])
    np.testing.assert_array_equal(times.intervals_s(plan=_PLAN), [3.0])


def test_the_oldest_times_are_forgotten():
    times = _times(*((0, float(s), None) for s in range(5000)))
    assert len(times.latest()) == 4096
    assert times.latest()[-1].start_s == 4999.0
