import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm.profiling import compute, quality, trace

_SHARES = st.floats(0, 1)


def _times(forward_s, backward_s):
    return compute.LayerTimes(np.array(forward_s), np.array(backward_s), 1.0, 1.0)


def test_the_spread_is_the_median_absolute_deviation():
    found = quality.spread([_times([1, 2], [1, 1]), _times([2, 2], [1, 1]), _times([9, 2], [1, 1])])
    assert found.forward_s.tolist() == [1, 0]
    assert found.backward_s.tolist() == [0, 0]
    assert found.step_s == 1


def test_many_steps_that_are_all_alike_are_trusted():
    assert quality.confidence(1.0, 99, 1.0, 0.0, 0.0) == pytest.approx(0.99)


@given(_SHARES, st.integers(1, 99), st.floats(0, 2), st.floats(0, 2))
def test_confidence_is_a_share_that_each_fault_lowers(matched, steps, deviation_s, error_s):
    figure = quality.confidence(matched, steps, 1.0, deviation_s, error_s)
    assert 0 <= figure <= matched
    assert figure <= quality.confidence(matched, steps + 1, 1.0, deviation_s / 2, error_s / 2)


def test_a_trace_of_another_model_is_refused():
    with pytest.raises(trace.TraceError, match=r"trace of w is of another model.* 60% of"):
        quality.check("w", 0.6, 0.9)


def test_a_trace_that_is_too_uncertain_is_refused():
    with pytest.raises(trace.TraceError, match=r"trace of w is too uncertain.* 0\.20 "):
        quality.check("w", 0.9, 0.2)


def test_a_good_trace_is_taken():
    quality.check("w", 0.7, 0.3)


def test_a_rate_that_is_not_told_costs_a_tenth_of_confidence():
    assert [quality.told_share(told) for told in (2, 1, 0)] == pytest.approx([1.0, 0.9, 0.8])
