"""Each kind of network learns under our strategy what it learns under stock's, bit for bit."""

import pytest

from tests.cluster import model_zoo, training

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", params=model_zoo.PROGRAMS)
def program(request, keras_api):
    return model_zoo.PROGRAMS[request.param].of(keras_api)


def test_numbers_equal_stock_bit_for_bit_under_three_plans(ours, stock):
    training.assert_equal(ours, stock)
    assert len(training.plans_used(ours.step)) == training.EPOCHS


def test_what_can_be_grouped_is_grouped(ours, program):
    training.assert_grouped(program, ours)
