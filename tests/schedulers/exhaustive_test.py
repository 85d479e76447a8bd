import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.schedulers import exhaustive, makespan


def _decisions(num_layers):
    inner = range(1, num_layers)
    for count in range(num_layers):
        for cuts in itertools.combinations(inner, count):
            yield [*cuts, num_layers]


@hypothesis.given(st.from_type(LayerCosts))
def test_no_decision_is_better_nor_as_good_with_fewer_segments(costs):
    hypothesis.assume(len(costs) <= 6)
    instance = costs.pull_s, costs.forward_s, costs.overhead_pull_s
    found = exhaustive.best_ends(*instance)
    best = min((makespan.idle_s(ends, *instance), len(ends)) for ends in _decisions(len(costs)))
    assert (makespan.idle_s(found, *instance), len(found)) == best


def test_as_many_layers_as_it_says_are_tried():
    ones = np.ones(exhaustive.MAX_LAYERS)
    plan = exhaustive.schedule(LayerCosts(ones, ones, ones, ones, overhead_s=0))
    assert len(plan.pull) == len(plan.push) == exhaustive.MAX_LAYERS


def test_more_layers_are_refused():
    ones = np.ones(exhaustive.MAX_LAYERS + 1)
    costs = LayerCosts(ones, ones, ones, ones, overhead_s=0)
    message = r"^`costs` \(17 layers\) must have at most 16 layers .* use the scheduler dynacomm"
    with pytest.raises(ValueError, match=message):
        exhaustive.schedule(costs)
