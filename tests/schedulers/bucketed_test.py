import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import bucketed

_RATE = 2.0**20  # One MiB takes a second.


def _costs(sizes_mib):
    ones = np.ones(len(sizes_mib))
    return LayerCosts(sizes_mib, ones, ones, sizes_mib, overhead_s=0.1)


def _plan(sizes_mib, bucket_mib):
    return bucketed.schedule(_costs(sizes_mib), bucket_mib=bucket_mib, rate_bytes_per_s=_RATE)


def test_buckets_are_filled_in_the_order_in_which_layers_travel():
    plan = _plan([1, 1, 1, 1, 1], bucket_mib=2)
    assert plan.pull == ((1, 2), (3, 4), (5, 5))
    assert plan.push == ((4, 5), (2, 3), (1, 1))


def test_layer_larger_than_a_bucket_has_its_own():
    plan = _plan([1, 5, 1], bucket_mib=2)
    assert plan.pull == ((1, 1), (2, 2), (3, 3))
    assert plan.push == ((3, 3), (2, 2), (1, 1))


def test_one_bucket_holds_a_model_that_fits():
    assert _plan([1, 1, 1], bucket_mib=3).pull == ((1, 3),)


def test_bucket_holds_a_tenth_where_bytes_are_not_known():
    plan = bucketed.schedule(_costs(np.ones(20)))
    assert len(plan.pull) == len(plan.push) == 10


def test_size_is_25_mib_unless_given():
    plan = bucketed.schedule(_costs([25, 25]), rate_bytes_per_s=_RATE)
    assert plan.pull == ((1, 1), (2, 2))
    plan = bucketed.schedule(_costs([12.5, 12.5]), rate_bytes_per_s=_RATE)
    assert plan.pull == ((1, 2),)


@hypothesis.given(st.lists(st.integers(0, 9), min_size=1), st.integers(1, 30))
def test_only_single_layers_exceed_the_size(sizes_mib, bucket_mib):
    for first, last in _plan(sizes_mib, bucket_mib).pull:
        assert first == last or sum(sizes_mib[first - 1 : last]) <= bucket_mib


@pytest.mark.parametrize("name", ["bucket_mib", "rate_bytes_per_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_size_and_rate_must_be_positive(name, value):
    with pytest.raises(ValueError, match=rf"^`{name}` \({value}\) must be positive\.$"):
        bucketed.schedule(_costs([1]), **{name: value})
