"""Traces of real trainings, read by the package and, independently, straight from the raw events.

What is expected is worked out here from the profiler's messages alone: with no graph, no streaming
reader and no fit, by the names that operations have in these two models.
"""

import collections
import gzip
import itertools
import pathlib
import re

import numpy as np
import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tf_dynacomm.profiling import analysis, run

_TRACES = pathlib.Path(__file__).parents[2] / "testdata" / "traces"
_PLANNED = ("dynacomm", "layer_by_layer", "resnet_like", "two_workers")
_CASES = (*_PLANNED, "stock")


class _Raw:
    """All events of a host: (name, start, end, stats), in seconds since the epoch."""

    def __init__(self, case: str, host: str):
        space = xplane_pb2.XSpace()
        space.ParseFromString(
            gzip.decompress((_TRACES / case / f"{host}.xplane.pb.gz").read_bytes())
        )
        planes = {plane.name: plane for plane in space.planes}
        begin_ns = next(
            stat.uint64_value
            for stat in planes["Task Environment"].stats
            if planes["Task Environment"].stat_metadata[stat.metadata_id].name
            == "profile_start_time"
        )
        self.plane = planes["/host:CPU"]
        self.lines = [self._line(line, begin_ns) for line in self.plane.lines]

    def _line(self, line, begin_ns):
        base_ps = (begin_ns + line.timestamp_ns) * 1000
        return [
            (
                self.plane.event_metadata[e.metadata_id].name,
                base_ps + e.offset_ps,
                base_ps + e.offset_ps + e.duration_ps,
                {self.plane.stat_metadata[s.metadata_id].name: self._value(s) for s in e.stats},
            )
            for e in line.events
        ]

    def _value(self, stat):
        if stat.WhichOneof("value") == "ref_value":
            return self.plane.stat_metadata[stat.ref_value].name
        return getattr(stat, stat.WhichOneof("value"))

    def received_ps(self, kind: str) -> dict[int, dict[str, int]]:
        """By step, when each tensor was asked for (`Start`) or there (`Done`)."""
        found = collections.defaultdict(dict)
        for name, start, _, stats in (event for line in self.lines for event in line):
            if name == f"ExecutorState::ProcessAsync::{kind}" and stats["kernel_type"] == "_Recv":
                found[stats["step_id"]][re.sub(r"/_\d+$", "", stats["name"])] = start
        return found

    def busy_s(self, pattern: str) -> dict[int, float]:
        """By step, the wall time in which any operation runs whose node's name matches."""
        spans = collections.defaultdict(list)
        for line in self.lines:
            steps = [
                (s, e, stats["id"]) for n, s, e, stats in line if n == "ExecutorState::Process"
            ]
            for name, start, end, _ in line:
                if "::" not in name and re.search(pattern, name) and not name.endswith(":_Send"):
                    for begin, until, step in steps:
                        if begin <= start and end <= until:
                            spans[step].append((start, end))
        return {step: _union(found) * 1e-12 for step, found in spans.items()}


def _union(spans) -> int:
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _segments(received: dict[str, int], way: str) -> dict[int, int]:
    """When each segment was there: the last of its parts."""
    found = {}
    for source, at in received.items():
        match = re.match(rf"dynacomm/{way}_(\d+)/", source)
        if match:
            found[int(match[1])] = max(at, found.get(int(match[1]), 0))
    return found


@pytest.fixture(scope="module")
def analysed():
    """Analyses a worker of a case, once."""
    runs = {case: run.load(_TRACES / case) for case in _CASES}
    done = {}

    def of(case, worker=0):
        if (case, worker) not in done:
            done[case, worker] = analysis.analyse(runs[case], worker)
        return done[case, worker]

    return of


def test_every_recording_is_declared():
    assert sorted(p.name for p in _TRACES.iterdir()) == sorted(_CASES)


@pytest.mark.parametrize("case", _PLANNED)
def test_pulls_take_what_the_raw_events_say(analysed, case):
    found = analysed(case)
    starts, dones = (_Raw(case, "worker_0").received_ps(kind) for kind in ("Start", "Done"))
    count = len(found.plan.pull)
    expected = {}
    for step, received in dones.items():
        arrived = _segments(received, "pull")
        if len(arrived) == count and _segments(starts[step], "pull").keys() == arrived.keys():
            asked = min(at for n, at in starts[step].items() if n.startswith("dynacomm/pull_1/"))
            ends = [asked, *(arrived[number] for number in range(1, count + 1))]
            expected[step] = [(b - a) * 1e-12 for a, b in itertools.pairwise(ends)]
    for step in found.steps:
        durations_s = [pull.end_s - pull.start_s for pull in step.pulls]
        np.testing.assert_allclose(durations_s, expected[step.step], rtol=1e-5, atol=1e-9)
    assert len(expected) - 2 <= len(found.steps) <= len(expected)  # Pushes of some are cut off.


@pytest.mark.parametrize("case", ["dynacomm", "layer_by_layer"])
def test_pushes_arrive_when_the_raw_events_say(analysed, case):
    found, ps = analysed(case), _Raw(case, "ps_0").received_ps("Done")
    asked = _Raw(case, "worker_0").received_ps("Start")
    for step in found.steps:
        begin = min(at for n, at in asked[step.step].items() if n.startswith("dynacomm/pull_1/"))
        arrived = _segments(ps[step.step], "push")
        expected_s = [(arrived[number] - begin) * 1e-12 for number in sorted(arrived)]
        ends_s = [push.end_s - step.begin_s for push in step.pushes]
        np.testing.assert_allclose(ends_s, expected_s, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("case", ["stock", "dynacomm", "layer_by_layer"])
def test_a_convolutions_cost_is_the_wall_time_of_its_operations(analysed, case):
    """Up to the executor's pauses, which count too: less than 1 ms in these traces."""
    found = analysed(case)
    raw = _Raw(case, "worker_0")
    for number, name in enumerate(found.costs.names):
        if name.startswith("conv2d"):
            busy_s = raw.busy_s(rf"^small_cnn/{name}/Conv2D:")
            expected_s = np.median([busy_s[step.step] for step in found.steps])
            cost_s = found.costs.forward_s[number]
            assert expected_s <= cost_s + 1e-9
            assert cost_s < expected_s + 1e-3


@pytest.mark.parametrize("case", ["stock", "dynacomm", "layer_by_layer"])
def test_backward_adds_up_to_the_wall_time_of_the_gradients(analysed, case):
    found = analysed(case)
    busy_s = _Raw(case, "worker_0").busy_s(r"gradient_tape/")
    expected_s = np.median([busy_s[step.step] for step in found.steps])
    assert found.costs.backward_s.sum() == pytest.approx(expected_s, rel=0.15, abs=3e-4)


@pytest.mark.parametrize("case", _CASES)
def test_nearly_all_of_the_time_is_matched(analysed, case):
    assert analysed(case).measurement.matched_share > 0.95
    assert analysed(case).measurement.confidence > 0.5


@pytest.mark.parametrize("worker", [0, 1])
def test_each_worker_has_its_own_costs(analysed, worker):
    found, other = (analysed("two_workers", w) for w in (worker, 1 - worker))
    assert found.host == f"worker_{worker}"
    assert not np.array_equal(found.costs.forward_s, other.costs.forward_s)


def test_names_alone_tell_stocks_convolutions_as_the_graph_does(analysed):
    loaded = run.load(_TRACES / "stock")
    named = analysis.analyse(run.Run(**{**vars(loaded), "record": None}), 0)
    known = analysed("stock")
    assert named.layers is None
    assert len(named.costs) == len(known.costs)
    for number, name in enumerate(known.costs.names):
        if name.startswith("conv2d"):
            expected_s = known.costs.forward_s[number]
            assert named.costs.forward_s[number] == pytest.approx(expected_s, rel=0.05)
