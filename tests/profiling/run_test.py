import pathlib
import shutil

import pytest

from tf_dynacomm.profiling import run, trace

_TRACES = pathlib.Path(__file__).parents[2] / "testdata" / "traces"


def test_tasks_are_known_by_what_they_sent(tmp_path):
    names = {"worker_0": "a", "worker_1": "d", "ps_0": "c", "ps_1": "b"}
    for task, name in names.items():
        shutil.copy(
            _TRACES / "two_workers" / f"{task}.xplane.pb.gz", tmp_path / f"{name}.xplane.pb.gz"
        )
    found = run.load(tmp_path)
    assert {w: h.host for w, h in found.workers.items()} == {0: "a", 1: "d"}
    assert {t: h.host for t, h in found.ps.items()} == {"ps0": "c", "ps1": "b"}
    assert found.record is None


def test_the_step_saved_beside_the_trace_is_read():
    found = run.load(_TRACES / "two_workers")
    assert found.record.plans.keys() == {0, 1}
    assert len(found.record.layers) == 8


def test_files_of_different_runs_are_not_mixed_up(tmp_path):
    for case in ("stock", "dynacomm"):
        shutil.copy(_TRACES / case / "ps_0.xplane.pb.gz", tmp_path / f"{case}.xplane.pb.gz")
    with pytest.raises(trace.TraceError, match="dynacomm and stock are both the trace of ps:0"):
        run.load(tmp_path)


def test_a_record_that_is_damaged_is_named(tmp_path):
    shutil.copy(_TRACES / "stock" / "ps_0.xplane.pb.gz", tmp_path)
    (tmp_path / "dynacomm.json").write_text("{}")
    with pytest.raises(trace.TraceError, match=r"dynacomm\.json: not a file of step"):
        run.load(tmp_path)
