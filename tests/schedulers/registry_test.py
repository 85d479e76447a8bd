import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from tf_dynacomm import schedulers
from tf_dynacomm.costs import LayerCosts


def test_unknown_name_lists_those_there_are():
    message = r"^`scheduler` \('fastest'\) must be one of dynacomm, .*sequential"
    with pytest.raises(ValueError, match=message):
        schedulers.get("fastest")


def test_names_are_those_of_all_schedulers():
    expected = {"bucketed", "dynacomm", "dynacomm_dp", "exhaustive", "ibatch"}
    expected |= {"layer_by_layer", "sequential"}
    assert set(schedulers.names()) == expected


@pytest.mark.parametrize("name", schedulers.names())
@hypothesis.given(costs=st.from_type(LayerCosts), credit=st.integers(1, 3))
def test_plan_is_for_the_layers_and_names_its_maker(name, costs, credit):
    plan = schedulers.get(name)(costs, credit=credit)
    assert plan.num_layers == len(costs)
    assert plan.push
    assert (plan.names, plan.credit, plan.scheduler) == (costs.names, credit, name)


def test_layer_by_layer_and_sequential_are_the_extremes():
    costs = LayerCosts([1] * 3, [1] * 3, [1] * 3, [1] * 3, overhead_s=0.1)
    each = schedulers.get("layer_by_layer")(costs)
    assert each.pull == each.push[::-1] == ((1, 1), (2, 2), (3, 3))
    whole = schedulers.get("sequential")(costs)
    assert whole.pull == whole.push == ((1, 3),)


def test_planning_does_not_load_tensorflow():
    program = "import sys, tf_dynacomm; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
