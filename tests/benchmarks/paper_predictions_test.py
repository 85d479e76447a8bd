import numpy as np
import pytest

from benchmarks import paper_predictions
from tf_dynacomm.costs import LayerCosts

_RATE = 10e9 / 8


class _Testbed:
    """Four equal layers, whose transfer takes as long as their computation."""

    model = "even"

    def costs(self, batch_size=32, rate_bytes_per_s=_RATE):
        compute_s, transfer_s = np.ones((2, 4))
        compute_s, transfer_s = compute_s * batch_size / 32, transfer_s * _RATE / rate_bytes_per_s
        return LayerCosts(transfer_s, compute_s, compute_s, transfer_s, overhead_s=0)


def test_reduction_is_relative_to_sequential():
    # Sequential 8 + 8; with overlap 5 + 5.
    found = paper_predictions.reductions(_Testbed().costs())
    assert found["dynacomm"] == found["layer_by_layer"] == pytest.approx(37.5)


def test_workers_with_a_link_each_do_not_slow_down():
    found = paper_predictions.speedups(_Testbed(), workers=4, servers=4)
    assert set(found.values()) == {4.0}


def test_one_link_bounds_the_speedup():
    found = paper_predictions.speedups(_Testbed(), workers=4, servers=1)
    # Transfers four times as long: 17 + 17 instead of 5 + 5; taking turns, one step each 4 s.
    assert found["dynacomm least"] == pytest.approx(4 * 10 / 34)
    assert found["dynacomm most"] == pytest.approx(10 / 4)


def test_slower_links_are_those_of_the_rate_asked_for():
    found = paper_predictions.by_rate(_Testbed())
    assert found[10.0] == paper_predictions.reductions(_Testbed().costs())
    assert found[5.0]["dynacomm"] == pytest.approx(100 * (1 - (9 + 9) / (12 + 12)))


def test_every_prediction_has_a_table():
    tables = paper_predictions.tables(_Testbed())
    assert [table.header[0] for table in tables] == ["batch size", "Gbit/s", "workers", "PS tasks"]
