import dataclasses

import pytest

from benchmarks import paper, results


@pytest.fixture(scope="module")
def testbeds():
    return paper.fit_all()


def test_fitted_figures_are_near_the_papers(testbeds):
    for model, testbed in testbeds.items():
        found = paper.reductions(testbed.costs())
        for (phase, scheduler), value in paper.PAPER[model].items():
            if scheduler != "ibatch":
                assert found[phase, scheduler] == pytest.approx(value, abs=1.5)


@pytest.mark.parametrize("model", ["vgg19", "resnet152"])
def test_ibatch_which_is_not_fitted_is_near_the_papers(testbeds, model):
    found = paper.reductions(testbeds[model].costs())
    expected = paper.PAPER[model]["forward", "ibatch"]
    assert found["forward", "ibatch"] == pytest.approx(expected, abs=5)


def test_fit_finds_constants_that_made_the_figures(monkeypatch):
    true = paper.Testbed("vgg19", 4e12, 0.8, 1.5e-3)
    names = ("layer_by_layer", "dynacomm")
    monkeypatch.setitem(paper.PAPER, "vgg19", paper.reductions(true.costs(), names))
    found = paper._fit("vgg19", paper._STARTS)
    reductions = paper.reductions(found.costs(), names)
    for key, value in paper.PAPER["vgg19"].items():
        assert reductions[key] == pytest.approx(value, abs=0.2)


def test_googlenet_shares_ratio_and_overhead_with_the_others(testbeds):
    others = [testbeds[model] for model in ("vgg19", "inception_v4", "resnet152")]
    product = 1.0
    for testbed in others:
        product *= testbed.overhead_s
    assert testbeds["googlenet"].overhead_s == pytest.approx(product ** (1 / 3))


def test_report_has_every_figure(monkeypatch, testbeds, tmp_path):
    monkeypatch.setattr(paper, "fit_all", lambda: testbeds)
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    paper.main()
    written = (tmp_path / "PAPER.md").read_text()
    for value in (figure for figures in paper.PAPER.values() for figure in figures.values()):
        assert f"{value:.2f}" in written
    for title in ("Fig. 5", "Fig. 6", "batch size 16", "| 2.5 ", "speed-up of 8 workers"):
        assert title in written
    assert (tmp_path / "results" / "paper.png").read_bytes().startswith(b"\x89PNG")


def test_costs_scale_with_batch_and_rate():
    testbed = paper.Testbed("vgg19", 4e12, 0.8, 1.5e-3)
    one, two = testbed.costs(batch_size=32), testbed.costs(64, rate_bytes_per_s=2.5e9)
    assert two.forward_s.sum() == pytest.approx(2 * one.forward_s.sum())
    assert two.pull_s.sum() == pytest.approx(one.pull_s.sum() / 2)
    assert dataclasses.astuple(testbed)[0] == "vgg19"
