import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.profiling import link, measure, smoothing

_MBIT_S = 1e6 / 8
_SIZES_BYTES = np.array([4e5, 1e6])


def _measured(rate=250 * _MBIT_S, scale=1.0, span_s=1.0, names=("a", "b")):
    transfer_s = _SIZES_BYTES / rate
    costs = LayerCosts(
        transfer_s, scale * np.array([1, 2]), scale * np.array([2, 3]), transfer_s, 0.01 * scale,
        apply_s=scale * np.array([0.1, 0.2]), names=names,
    )  # fmt: skip
    way = link.Link(0.01 * scale, rate)
    return measure.Measurement(costs, way, way, span_s, 1.0, 8, {})


def _smoothed(measurements):
    smoother = smoothing.Smoother()
    return [smoother.update(m) for m in measurements]


def _assert_same(found, expected):
    assert found.costs == expected.costs
    assert found.down.overhead_s == expected.down.overhead_s
    assert found.down.rate_bytes_per_s == pytest.approx(expected.down.rate_bytes_per_s)


def test_the_first_measurement_is_taken_as_it_is():
    _assert_same(_smoothed([_measured()])[0], _measured())


_WRONG = st.floats(0.7, 1.4).map(lambda scale: _measured(scale * 250 * _MBIT_S, scale))


@given(st.lists(_WRONG, min_size=1, max_size=4))
def test_one_measurement_at_a_time_that_is_a_little_off_never_shows(wrong):
    right = _measured()
    for smoothed in _smoothed([right, right, *(m for w in wrong for m in (w, right, right))])[2:]:
        np.testing.assert_allclose(smoothed.costs.forward_s, right.costs.forward_s)
        np.testing.assert_allclose(smoothed.costs.pull_s, right.costs.pull_s)
        assert smoothed.down.rate_bytes_per_s == pytest.approx(right.down.rate_bytes_per_s)


@given(st.integers(0, 6), st.one_of(st.floats(0.01, 0.6), st.floats(1.6, 100)))
def test_a_link_of_another_kind_is_there_at_once(epochs_before, change):
    after = _measured(change * 250 * _MBIT_S)
    smoothed = _smoothed([*[_measured()] * epochs_before, after])[-1]
    assert smoothed.down.rate_bytes_per_s == pytest.approx(after.down.rate_bytes_per_s)
    np.testing.assert_allclose(smoothed.costs.push_s, after.costs.push_s)


@given(st.integers(0, 6), st.floats(0.01, 100))
def test_a_change_that_lasts_is_there_with_the_second_measurement(epochs_before, change):
    after = _measured(change * 250 * _MBIT_S, change)
    smoothed_all = _smoothed([*[_measured()] * epochs_before, after, after, after])
    for smoothed in smoothed_all[epochs_before + 1 :]:
        np.testing.assert_allclose(smoothed.costs.backward_s, after.costs.backward_s)
        assert smoothed.up.rate_bytes_per_s == pytest.approx(after.up.rate_bytes_per_s)


@given(st.lists(st.floats(0.9, 1.1), min_size=1, max_size=9))
def test_what_is_smoothed_stays_within_what_was_measured(scales):
    for smoothed in _smoothed([_measured(scale=scale) for scale in scales]):
        assert np.all(smoothed.costs.forward_s >= min(scales) * np.array([1, 2]) - 1e-12)
        assert np.all(smoothed.costs.forward_s <= max(scales) * np.array([1, 2]) + 1e-12)


def test_transfers_stay_what_the_link_says():
    rates = (250 * _MBIT_S, 60 * _MBIT_S, 90 * _MBIT_S)
    last = _smoothed([_measured(rate) for rate in rates])[-1]
    np.testing.assert_allclose(last.costs.pull_s, [last.down.transfer_s(s) for s in _SIZES_BYTES])


def test_what_tells_of_the_trace_is_the_newest():
    assert [m.span_s for m in _smoothed([_measured(span_s=s) for s in (1.0, 9.0)])] == [1.0, 9.0]


def test_other_layers_start_anew():
    other = _measured(scale=5.0, names=("c", "d"))
    _assert_same(_smoothed([_measured(), _measured(), other])[-1], other)


def test_a_link_too_fast_to_measure_stays_so():
    assert _smoothed([_measured(np.inf)] * 3)[-1].down.rate_bytes_per_s == np.inf
