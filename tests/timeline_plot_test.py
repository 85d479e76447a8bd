import builtins
import re

import pytest

from tf_dynacomm import timeline, timeline_plot
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan

pytest.importorskip("matplotlib")


def _step(pull=((1, 2),), push=((1, 2),), apply_s=None):
    costs = LayerCosts([3, 3], [2, 2], [4, 4], [3, 3], 0.5, apply_s, names=["conv", "dense"])
    return timeline.simulate(costs, Plan(pull, push))


def _written(tmp_path, timelines, **kwargs):
    """The picture as SVG, in which matplotlib leaves each text as a comment."""
    timeline_plot.write(tmp_path / "step.svg", timelines, **kwargs)
    return (tmp_path / "step.svg").read_text()


def test_layers_segments_and_waits_are_labelled(tmp_path):
    svg = _written(tmp_path, {"before": _step()})
    for text in ("before", "link", "worker", "conv", "dense", "1-2", "waits 6.5 s"):
        assert f"<!-- {text} -->" in svg


def test_segment_of_one_layer_is_labelled_by_its_number(tmp_path):
    svg = _written(tmp_path, {"after": _step(pull=[(1, 1), (2, 2)])})
    assert "<!-- 1 -->" in svg
    assert "2 pulls, 1 push" in svg


def test_savings_are_told_against_the_first_step(tmp_path):
    before, after = _step(), _step([(1, 1), (2, 2)], [(2, 2), (1, 1)])
    svg = _written(tmp_path, {"before": before, "after": after})
    saved = 1 - after.iteration_s / before.iteration_s
    assert f"{after.iteration_s:.3g} s   -{saved:.1%}" in svg
    assert svg.index("<!-- before -->") < svg.index("<!-- after -->")


def test_savings_are_told_against_the_step_that_is_named(tmp_path):
    before, after = _step(), _step([(1, 1), (2, 2)], [(2, 2), (1, 1)])
    steps = {"before": before, "after": after, "again": after}
    saved = f"-{1 - after.iteration_s / before.iteration_s:.1%}"
    assert _written(tmp_path, steps).count(saved) == 2
    assert _written(tmp_path, steps, against={"again": "after"}).count(saved) == 1


def test_layers_too_short_for_their_names_are_labelled_together(tmp_path):
    tiny = [0.01] * 100
    names = [f"layer{number}" for number in range(100)]
    costs = LayerCosts(tiny, tiny, tiny, tiny, 0, names=names)
    step = timeline.simulate(costs, Plan([(1, 100)], [(1, 100)]))
    svg = _written(tmp_path, {"deep": step})
    assert "<!-- layer0 … layer99 -->" in svg
    assert "<!-- layer99 … layer0 -->" in svg


@pytest.mark.parametrize(("seconds", "unit"), [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (0, "µs")])
def test_unit_of_time_follows_the_step(tmp_path, seconds, unit):
    one = [seconds]
    step = timeline.simulate(LayerCosts(one, one, one, one, 0), Plan([(1, 1)], [(1, 1)]))
    assert f"time in the step [{unit}]" in _written(tmp_path, {"step": step})


def test_application_has_a_lane_where_it_costs_time(tmp_path):
    assert "<!-- PS -->" not in _written(tmp_path, {"step": _step()})
    assert "<!-- PS -->" in _written(tmp_path, {"step": _step(apply_s=[1, 1])})


def test_pulls_in_flight_at_once_are_drawn_one_below_the_other(tmp_path):
    costs = LayerCosts([3, 3], [2, 2], [4, 4], [3, 3], 0.5)
    plan = Plan([(1, 1), (2, 2)], [(1, 2)], credit=2)
    svg = _written(tmp_path, {"step": timeline.simulate(costs, plan)})
    heights = [
        float(re.search(rf"<!-- {label} -->.*?translate\([\d.]+ ([\d.]+)\)", svg, re.S)[1])
        for label in ("1", "2")
    ]
    assert heights[0] < heights[1]


def test_step_that_trains_nothing(tmp_path):
    assert "1 pull, 0 pushes" in _written(tmp_path, {"step": _step(push=[])})


def test_suffix_tells_the_format(tmp_path):
    timeline_plot.write(tmp_path / "step.png", {"step": _step()})
    assert (tmp_path / "step.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_format(tmp_path):
    with pytest.raises(ValueError, match=r"(?i)format 'txt' is not supported"):
        timeline_plot.write(tmp_path / "step.txt", {"step": _step()})


def test_there_must_be_a_timeline(tmp_path):
    with pytest.raises(ValueError, match=r"^`timelines` \(empty\) must have at least one"):
        timeline_plot.write(tmp_path / "step.svg", {})


def test_error_without_matplotlib_says_how_to_get_it(tmp_path, monkeypatch):
    original = builtins.__import__

    def without_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match=r"pip install tf_dynacomm\[plot\]"):
        timeline_plot.write(tmp_path / "step.svg", {"step": _step()})
