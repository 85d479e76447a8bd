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


@given(st.integers(0, 2**32 - 1), _OVERHEADS_S, st.floats(1e6, 1e9))
def test_noise_moves_the_fit_no_farther_than_it_moves_the_transfers(seed, overhead_s, rate):
    gap_bytes = 1_000_000
    sizes_bytes = np.repeat(np.arange(9) * gap_bytes, 5)
    durations_s = _durations_s(sizes_bytes, overhead_s, rate)
    noise_s = 0.1 * gap_bytes / rate
    durations_s += np.random.default_rng(seed).uniform(0, noise_s, len(sizes_bytes))
    fitted = link.fit(sizes_bytes, durations_s)
    assert fitted.transfer_s(gap_bytes) == pytest.approx(gap_bytes / rate, abs=noise_s)
    assert fitted.overhead_s == pytest.approx(overhead_s, abs=5 * noise_s)


@given(st.integers(0, 2**32 - 1), _OVERHEADS_S)
def test_bytes_that_noise_hides_do_not_swallow_the_overhead(seed, overhead_s):
    random, noise_s = np.random.default_rng(seed), 0.003
    sizes_bytes = [0] * 30 + random.integers(1, 10**5, 25).tolist()
    durations_s = overhead_s + random.uniform(0, noise_s, len(sizes_bytes))
    fitted = link.fit(sizes_bytes, durations_s)
    assert overhead_s <= fitted.overhead_s <= overhead_s + noise_s


def test_a_rate_that_noise_hides_is_infinite():
    """Most slopes are positive, but not three in four."""
    fitted = link.fit([0, 1, 2, 3], [0.5, 0.6, 0.4, 0.55])
    assert fitted == link.Link(0.5, np.inf)


def test_a_size_counts_as_often_as_it_was_transferred():
    often = [(size, 0.001 + size / 1e6) for size in (0, 10_000, 20_000)] * 30
    once = [(size, 0.001 + size / 1e8) for size in range(30_000, 40_000, 2_000)]
    fitted = link.fit(*zip(*often, *once, strict=True))
    assert fitted.rate_bytes_per_s == pytest.approx(1e6)
    assert fitted.overhead_s == pytest.approx(0.001)


@given(st.integers(0, 2**32 - 1))
def test_delays_of_small_transfers_do_not_hide_the_rate(seed):
    """As on a worker whose threads are busy: half of the small ones come late."""
    sizes_bytes = np.tile([1000, 1000, 40_000, 80_000, 150_000], 10)
    durations_s = _durations_s(sizes_bytes, 0.0005, 25e6)
    late_s = np.random.default_rng(seed).uniform(0.004, 0.01, 10)
    durations_s[::5] += late_s
    fitted = link.fit(sizes_bytes, durations_s)
    assert fitted == link.Link(pytest.approx(0.0005), pytest.approx(25e6))


@given(_SIZES, _OVERHEADS_S, _RATES)
def test_a_known_rate_leaves_the_overhead(sizes_bytes, overhead_s, rate):
    durations_s = _durations_s(sizes_bytes, overhead_s, rate)
    fitted = link.of_rate(sizes_bytes, durations_s, rate)
    assert fitted == link.Link(pytest.approx(overhead_s, abs=1e-12 * max(durations_s)), rate)


@given(_SIZES, _OVERHEADS_S, _RATES)
def test_the_least_rate_is_no_more_than_the_rate(sizes_bytes, overhead_s, rate):
    least = link.least_rate([0, *sizes_bytes], _durations_s([0, *sizes_bytes], overhead_s, rate))
    assert least <= rate * (1 + 1e-9)


def test_the_least_rate_is_that_of_half_the_bytes():
    assert link.least_rate([0, 100, 1000], [0.5, 10.0, 2.0]) == pytest.approx(500)
    assert link.least_rate([100], [0.0]) == np.inf


def test_the_mean_link_has_the_mean_times():
    links = [link.Link(0.1, 100.0), link.Link(0.3, 300.0)]
    mean = link.mean(links)
    assert mean.overhead_s == pytest.approx(0.2)
    assert mean.transfer_s(600) == pytest.approx((6 + 2) / 2)


def test_the_mean_of_links_without_limit_has_none():
    assert link.mean([link.Link(0.1, np.inf)] * 2).rate_bytes_per_s == np.inf
