import pytest

from benchmarks import testbed_figures
from tf_dynacomm.bench.workload import Workload


@pytest.mark.parametrize(("figure", "count"), [("5", 8), ("9", 7), ("11", 4)])
def test_cells_can_be_run(figure, count):
    found = list(testbed_figures.cases(figure))

    assert len(found) == count
    assert all(Workload.parse(spec).emulated for spec, _, _, _ in found)


def test_computation_grows_with_the_batch():
    half, whole = (Workload.parse(testbed_figures.model("vgg19", size)) for size in (16, 32))

    assert whole.forward_s == pytest.approx(2 * half.forward_s, abs=1e-3)


def test_workers_share_the_link_of_the_ps():
    assert {shared for _, _, _, shared in testbed_figures.cases("11")} == {250e6 / 8}
