import json

import pytest

from tf_dynacomm import timeline, timeline_trace
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan


@pytest.fixture
def step():
    """Two layers, pulled apart and pushed apart."""
    costs = LayerCosts([3, 1], [2, 2], [4, 2], [3, 1], overhead_s=0.5)
    return timeline.simulate(costs, Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)]))


def _trace(step, tmp_path):
    timeline_trace.write(tmp_path / "step.json", step)
    return json.loads((tmp_path / "step.json").read_text())["traceEvents"]


def test_trace_has_every_span(step, tmp_path):
    events = [event for event in _trace(step, tmp_path) if event["ph"] == "X"]
    assert [event["name"] for event in events] == [
        *("pull layer 1", "pull layer 2", "forward layer 1", "forward layer 2"),
        *("backward layer 2", "backward layer 1", "push layer 2", "push layer 1"),
    ]
    assert (events[1]["ts"], events[1]["dur"]) == (3.5e6, 1.5e6)
    assert events[1]["args"] == {"first_layer": 2, "last_layer": 2, "layers": ["layer 2"]}


def test_trace_names_segments_by_their_first_and_last_layer(tmp_path):
    costs = LayerCosts([1] * 3, [1] * 3, [1] * 3, [1] * 3, 0, names=["a", "b", "c"])
    step = timeline.simulate(costs, Plan([(1, 3)], [(1, 3)]))
    names = {event["name"] for event in _trace(step, tmp_path)}
    assert {"pull a … c", "push a … c"} <= names


def test_trace_has_a_lane_for_each_kind(step, tmp_path):
    events = _trace(step, tmp_path)
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    kinds = {(e["cat"], lanes[e["tid"]]) for e in events if e["ph"] == "X"}
    assert kinds == {
        ("pull", "pull"), ("forward", "compute"), ("backward", "compute"), ("push", "push"),
    }  # fmt: skip


def test_each_pull_in_flight_has_a_lane(tmp_path):
    costs = LayerCosts(*[[1] * 3] * 4, overhead_s=1)
    plan = Plan([(1, 1), (2, 2), (3, 3)], [(1, 3)], credit=2)
    events = _trace(timeline.simulate(costs, plan), tmp_path)
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    pulls = [lanes[e["tid"]] for e in events if e["ph"] == "X" and e["cat"] == "pull"]
    assert pulls == ["pull 1", "pull 2", "pull 1"]
