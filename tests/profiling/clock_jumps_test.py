"""Clocks that are set while a trace is taken: recorded traces, changed so, are refused."""

import gzip
import pathlib
import shutil

import numpy as np
import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tf_dynacomm.profiling import analysis, run, trace

_TRACES = pathlib.Path(__file__).parents[2] / "testdata" / "traces"


def _set_clock(file: pathlib.Path, by_s: float) -> None:
    """Moves the later half of a host's events."""
    space = xplane_pb2.XSpace()
    space.ParseFromString(gzip.decompress(file.read_bytes()))
    lines = next(plane.lines for plane in space.planes if plane.name == "/host:CPU")
    starts_ps = [line.timestamp_ns * 1000 + e.offset_ps for line in lines for e in line.events]
    middle_ps, by_ps = np.median(starts_ps), int(by_s * 1e12)
    for line in lines:
        for event in line.events:
            start_ps = line.timestamp_ns * 1000 + event.offset_ps
            end_ps = start_ps + event.duration_ps
            event.offset_ps += by_ps * (start_ps > middle_ps)
            event.duration_ps = max(0, event.duration_ps + by_ps * (start_ps <= middle_ps < end_ps))
    file.write_bytes(gzip.compress(space.SerializeToString()))


@pytest.mark.parametrize("by_s", [-3600.0, -0.05, 0.05, 3600.0])
@pytest.mark.parametrize("host", ["worker_0", "ps_0"])
@pytest.mark.parametrize("case", ["dynacomm", "layer_by_layer", "stock"])
def test_a_clock_set_meanwhile_is_told(tmp_path, case, host, by_s):
    folder = shutil.copytree(_TRACES / case, tmp_path / case)
    _set_clock(folder / f"{host}.xplane.pb.gz", by_s)
    with pytest.raises(trace.TraceError, match=r"The clock of worker_0 or of ps0 was set by"):
        analysis.analyse(run.load(folder), 0)


def test_names_alone_tell_no_costs_either(tmp_path):
    folder = shutil.copytree(_TRACES / "stock", tmp_path / "stock")
    _set_clock(folder / "ps_0.xplane.pb.gz", 0.5)
    loaded = run.load(folder)
    with pytest.raises(trace.TraceError, match="was set by"):
        analysis.analyse(run.Run(**{**vars(loaded), "record": None}), 0)
