import pytest

from benchmarks import scheduling_overhead


def test_slope_is_the_exponent():
    layers = (10, 20, 40, 80)
    assert scheduling_overhead.slope(layers, [3e-6 * n**2.5 for n in layers]) == pytest.approx(2.5)


def test_every_scheduler_is_timed():
    names = {case.name.split()[0] for case in scheduling_overhead.cases()}
    assert names == set(scheduling_overhead.schedulers.names())


@pytest.mark.parametrize("case", list(scheduling_overhead.cases()), ids=lambda case: case.name)
def test_case_runs(case):
    small = scheduling_overhead.Case(case.name, case.search, (10, 12))
    assert len(small.times_s()) == 2


def test_table_compares_at_320_layers():
    layers = scheduling_overhead._PAPER_LAYERS
    times_s = {
        scheduling_overhead.Case(f"{name} {direction}", None, layers): [scale * n for n in layers]
        for name, scale in (("dynacomm", 1e-6), ("dynacomm_dp", 2e-3))
        for direction in ("forward", "backward")
    }
    table = scheduling_overhead.table(times_s)
    assert "At L = 320, forward: dynacomm takes 0.32 ms and is 2,000 times faster" in table.note
    name, *times_ms, slope = table.rows[0]
    assert (name, slope) == ("dynacomm forward", "1.00 from 40")
    assert times_ms == pytest.approx([n * 1e-3 for n in layers])
