import pytest

from tf_dynacomm import LayerCosts, schedulers
from tf_dynacomm.bench import contenders

_MIB = 2**20
_BYTES = [20 * _MIB] * 4
_COSTS = LayerCosts([0.2] * 4, [0.1] * 4, [0.2] * 4, [0.2] * 4, overhead_s=0.01)


def test_stock_has_no_plan():
    assert contenders.plans(["stock"], _COSTS, _BYTES) == {"stock": None}


@pytest.mark.parametrize("name", ["sequential", "layer_by_layer", "ibatch", "dynacomm"])
def test_schedulers_plan_from_the_costs(name):
    assert contenders.plans([name], _COSTS, _BYTES) == {name: schedulers.get(name)(_COSTS)}


@pytest.mark.parametrize(("name", "segments"), [("bucketed_25mib", 4), ("bucketed_64mib", 2)])
def test_buckets_have_their_sizes(name, segments):
    assert len(contenders.plans([name], _COSTS, _BYTES)[name].pull) == segments


def test_buckets_are_scaled_with_the_model():
    eighth = [size // 8 for size in _BYTES]

    plan = contenders.plans(["bucketed_64mib"], _COSTS, eighth, scale=0.125)["bucketed_64mib"]
    assert len(plan.pull) == 2


def test_all_take_part():
    assert set(contenders.plans(contenders.NAMES, _COSTS, _BYTES)) == set(contenders.NAMES)
