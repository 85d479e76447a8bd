import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm.schedulers import link

_SECONDS = st.integers(0, 40).map(lambda number: number / 8)


@st.composite
def _pulls(draw):
    layers_s = draw(st.lists(_SECONDS, min_size=1, max_size=10))
    ends = sorted(draw(st.sets(st.integers(1, len(layers_s)))) | {len(layers_s)})
    return ends, np.array(layers_s), draw(_SECONDS)


def test_one_in_flight_comes_after_the_other():
    assert link.arrivals_s([1, 3], [2, 3, 4], 0.5) == [2.5, 10]


def test_two_in_flight_share_the_link():
    # Together until 2.5, when the short one has come; then the long one has the link to itself.
    assert link.arrivals_s([1, 2], [1, 3], 0.5, credit=2) == [2.5, 4.5]


def test_next_is_asked_for_when_one_has_arrived():
    # The third is asked for at 2.5, and its bytes begin at 4.5, when the second has come.
    assert link.arrivals_s([1, 2, 3], [0.25, 0.25, 1], 2, credit=2) == [2.5, 2.5, 5.5]


def test_later_segment_may_overtake():
    assert link.arrivals_s([1, 2], [5, 1], 0, credit=2) == [6, 2]


def test_nothing_to_send_takes_the_overhead():
    assert link.arrivals_s([1, 2], [0, 0], 0.5, credit=2) == [0.5, 0.5]


@hypothesis.given(_pulls(), st.integers(2, 12))
def test_link_is_never_idle_once_all_are_asked_for(pulls, credit):
    ends, layers_s, overhead_s = pulls
    hypothesis.assume(credit >= len(ends))
    last_s = max(link.arrivals_s(ends, layers_s, overhead_s, credit))
    assert last_s == pytest.approx(overhead_s + layers_s.sum(), rel=1e-12)


@hypothesis.given(_pulls(), st.integers(1, 5))
def test_last_arrival_is_between_a_full_link_and_one_in_flight(pulls, credit):
    ends, layers_s, overhead_s = pulls
    last_s = max(link.arrivals_s(ends, layers_s, overhead_s, credit))
    one_in_flight_s = len(ends) * overhead_s + layers_s.sum()
    assert overhead_s + layers_s.sum() <= last_s * (1 + 1e-12)
    assert last_s <= one_in_flight_s * (1 + 1e-12)


@hypothesis.given(_pulls(), st.integers(2, 5))
def test_segment_comes_no_sooner_than_alone_on_the_link(pulls, credit):
    ends, layers_s, overhead_s = pulls
    arrivals_s = link.arrivals_s(ends, layers_s, overhead_s, credit)
    requests_s = [*[0.0] * credit, *arrivals_s]
    sizes_s = np.diff([0.0, *np.cumsum(layers_s)[np.array(ends) - 1]])
    for request_s, size_s, arrival_s in zip(requests_s, sizes_s, arrivals_s, strict=False):
        assert arrival_s >= (request_s + overhead_s + size_s) * (1 - 1e-12)
