"""Each kind of variable is trained under our strategy as under stock's, bit for bit."""

import pytest

from tests.cluster import training, variable_zoo

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", params=variable_zoo.PROGRAMS)
def program(request, keras_api):
    return variable_zoo.PROGRAMS[request.param].of(keras_api)


def test_numbers_equal_stock_bit_for_bit_under_three_plans(ours, stock):
    training.assert_equal(ours, stock)
    assert len(training.plans_used(ours.step)) == training.EPOCHS


def test_what_can_be_grouped_is_grouped(ours, program):
    training.assert_grouped(program, ours)


def test_halves_travel_where_the_worker_computes_in_halves(keras_api, cluster_1w2p):
    """A float32 kernel that the worker uses as bfloat16 only is cast on its PS task."""
    program = variable_zoo.PROGRAMS["mixed_bfloat16"]
    step = training.train(keras_api, program, cluster_1w2p, epochs=1).step
    for direction in ("pull", "push"):
        dtypes = {pack.rpartition("/")[2] for pack in training.packs(step, direction)}
        assert dtypes == {"bfloat16", "float32"}  # BatchNorm computes in float32.
