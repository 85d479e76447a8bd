import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm.profiling import link

_OVERHEADS_S = st.floats(0, 0.1)
_RATES = st.floats(1e5, 1e10)
_SIZES = st.lists(st.integers(1, 10**8), min_size=2, max_size=40).filter(lambda s: len(set(s)) > 1)


def _durations_s(sizes_bytes, overhead_s, rate):
    return overhead_s + np.asarray(sizes_bytes) / rate


@given(_SIZES, _OVERHEADS_S, _RATES)
def test_exact_transfers_give_the_link_back(sizes_bytes, overhead_s, rate):
    durations_s = _durations_s(sizes_bytes, overhead_s, rate)
    fitted = link.fit(sizes_bytes, durations_s)
    # Differences of durations are exact to the last bits of the durations only.
    error_s = 1e-12 * durations_s.max()
    assert fitted.overhead_s == pytest.approx(overhead_s, abs=max(sizes_bytes) * error_s)
    span_bytes = max(sizes_bytes) - min(sizes_bytes)
    assert fitted.transfer_s(span_bytes) == pytest.approx(span_bytes / rate, abs=error_s)


@given(st.integers(0, 9), st.floats(0, 100), _OVERHEADS_S)
def test_one_transfer_in_ten_may_be_far_off(outlier, delay_s, overhead_s):
    sizes_bytes = np.arange(1, 11) * 1_000_000
    durations_s = _durations_s(sizes_bytes, overhead_s, 1e8)
    durations_s[outlier] += delay_s
    fitted = link.fit(sizes_bytes, durations_s)
    assert fitted.overhead_s == pytest.approx(overhead_s, abs=1e-9)
    assert fitted.rate_bytes_per_s == pytest.approx(1e8)


@pytest.mark.parametrize("sizes_bytes", [[], [5], [5, 5, 5]])
def test_one_size_tells_nothing(sizes_bytes):
    assert link.fit(sizes_bytes, [1.0] * len(sizes_bytes)) is None


def test_larger_transfers_that_take_less_time_cost_overhead_only():
    fitted = link.fit([1, 2, 3], [0.5, 0.4, 0.3])
    assert fitted == link.Link(0.4, np.inf)
    assert fitted.transfer_s(1e9) == 0.0


def test_the_overhead_is_never_negative():
    fitted = link.fit([1000, 2000], [0.001, 0.004])
    assert fitted.overhead_s == 0.0
    assert fitted.rate_bytes_per_s == pytest.approx(1000 / 0.003)


@given(_SIZES, st.data())
def test_a_fitted_link_never_gains_time_with_bytes(sizes_bytes, data):
    durations = st.floats(0, 10)
    count = len(sizes_bytes)
    durations_s = data.draw(st.lists(durations, min_size=count, max_size=count))
    fitted = link.fit(sizes_bytes, durations_s)
    assert fitted.overhead_s >= 0
    assert 0 <= fitted.transfer_s(1) <= fitted.transfer_s(2)


def test_near_sizes_count_for_little():
    """Their slopes are all noise: here 1 s for each byte, against 1 µs to the far one."""
    fitted = link.fit([1000, 1001, 1002, 1003, 1_001_000], [1.0, 2.0, 3.0, 4.0, 3.5])
    assert 1e5 < fitted.rate_bytes_per_s < 1e7


@given(st.floats(0, 1000), st.integers(6, 12))
def test_one_size_far_from_the_others_may_be_wrong(delay_s, count):
    sizes_bytes = np.array([*range(1, count), 50 * count]) * 1_000_000
    durations_s = _durations_s(sizes_bytes, 0.002, 1e8)
    durations_s[-1] += delay_s
    fitted = link.fit(sizes_bytes, durations_s)
    assert fitted.rate_bytes_per_s == pytest.approx(1e8)
    assert fitted.overhead_s == pytest.approx(0.002, abs=1e-9)


def test_the_mean_link_has_the_mean_times():
    links = [link.Link(0.1, 100.0), link.Link(0.3, 300.0)]
    mean = link.mean(links)
    assert mean.overhead_s == pytest.approx(0.2)
    assert mean.transfer_s(600) == pytest.approx((6 + 2) / 2)


def test_the_mean_of_links_without_limit_has_none():
    assert link.mean([link.Link(0.1, np.inf)] * 2).rate_bytes_per_s == np.inf
