import functools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import dynacomm_dp, makespan


def _papers_makespan_s(transfer_s, compute_s, overhead_s):
    """The recurrence as printed, without the step that takes FC(n) off."""

    @functools.cache
    def end_s(k, n):
        if k == 0:
            return 0.0 if n == 0 else np.inf
        arrival_s = k * overhead_s + transfer_s[:n].sum()
        ends_s = (max(end_s(k - 1, m), arrival_s) + compute_s[m:n].sum() for m in range(n))
        return min(ends_s, default=np.inf)

    return min(end_s(k, len(transfer_s)) for k in range(1, len(transfer_s) + 1))


@pytest.mark.parametrize("seed", range(20))
def test_makespan_is_that_of_the_papers_form(seed):
    random = np.random.default_rng(seed)
    transfer_s, compute_s = random.exponential(size=(2, random.integers(1, 10)))
    overhead_s = random.exponential()
    ends = dynacomm_dp.best_ends(transfer_s, compute_s, overhead_s)
    makespan_s = compute_s.sum() + makespan.idle_s(ends, transfer_s, compute_s, overhead_s)
    expected_s = _papers_makespan_s(transfer_s, compute_s, overhead_s)
    assert makespan_s == pytest.approx(expected_s, rel=1e-12)


def test_of_equally_good_plans_that_of_fewest_segments_is_taken():
    assert dynacomm_dp.best_ends(np.zeros(4), np.ones(4), 0.0) == [4]


@hypothesis.given(st.from_type(LayerCosts))
def test_plan_says_who_made_it(costs):
    assert dynacomm_dp.schedule(costs).scheduler == "dynacomm_dp"
