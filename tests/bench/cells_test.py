import pytest

from tf_dynacomm.bench import cells, programs
from tf_dynacomm.bench.workload import Cell, Rate, Settings, Workload
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed.link import Link

_CELL = Cell(Workload.parse("emulated:vgg19:0.0005:0.02:0.04"), 0.0, 1)
_RATES = [Rate("100mbit", 12.5e6), Rate("50mbit", 6.25e6)]


@pytest.mark.cluster
def test_contenders_run_at_each_rate():
    settings = Settings(["stock", "dynacomm"], rounds=1, steps=1, how="relay")

    found = list(cells.run(_CELL, _RATES, settings))

    assert [(row.rate, row.contender) for row in found] == [
        (rate.text, name) for rate in _RATES for name in ("stock", "dynacomm")
    ]
    assert all(row.median_step_s > 0.99 * row.duplex_limit_s for row in found)
    assert found[2].bound_s > found[0].bound_s
    assert found[1].pulls >= 1
    assert found[1].predicted_s > 0.05


@pytest.mark.cluster
def test_real_model_trains():
    links = links_lib.Links(Link(), how="relay")

    with programs.running(Workload.parse("small_cnn", batch_size=2), links, 1) as program:
        program.run(1)
        assert cells.timed_s(program, None, 1) > 0


@pytest.mark.cluster
def test_worker_becomes_slow():
    workload = Workload.parse("emulated:vgg19:0.0001:0.05:0.05")
    with programs.running(workload, links_lib.Links(Link(), how="relay"), 2) as program:
        program.run(2)
        program.slowness.set(1, 10.0)
        for _ in range(5):  # Some data were fetched before.
            program.run(3)
        assert program.step.intervals_s(worker=1).max() > 0.99 * 1.0
