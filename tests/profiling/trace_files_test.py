import os

import pytest

from tf_dynacomm.profiling import trace_files


def _run(logdir, name, files=("a.xplane.pb", "b.xplane.pb")):
    folder = logdir / "plugins" / "profile" / name
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).touch()
    return [folder / file for file in files]


def test_the_files_of_the_latest_run_are_found_from_any_of_its_folders(tmp_path):
    _run(tmp_path, "2026_01_01_00_00_00")
    latest = _run(tmp_path, "2026_01_02_00_00_00")
    profile = tmp_path / "plugins" / "profile"
    for path in (tmp_path, profile, latest[0].parent):
        assert trace_files.run_files(path) == latest
    assert trace_files.run_files(os.fspath(latest[1])) == [latest[1]]


def test_a_run_without_files_is_passed_over(tmp_path):
    files = _run(tmp_path, "2026_01_01_00_00_00")
    _run(tmp_path, "2026_01_02_00_00_00", files=["other.txt"])
    assert trace_files.run_files(tmp_path) == files


def test_what_a_viewer_wrote_is_read_where_there_is_nothing_else(tmp_path):
    files = _run(tmp_path, "2026_01_01_00_00_00", ["a.trace.json.gz", "notes.json"])
    assert trace_files.run_files(tmp_path) == files[:1]
    _run(tmp_path, "2026_01_02_00_00_00", ["a.trace.json.gz", "a.xplane.pb"])
    assert [f.name for f in trace_files.run_files(tmp_path)] == ["a.xplane.pb"]


def test_of_a_file_and_its_packed_copy_one_is_read(tmp_path):
    for name in ("a.xplane.pb", "a.xplane.pb.gz", "b.xplane.pb.gz"):
        (tmp_path / name).touch()
    found = trace_files.run_files(tmp_path)
    assert [file.name for file in found] == ["a.xplane.pb", "b.xplane.pb.gz"]


@pytest.mark.parametrize(("name", "told"), [("", "no trace"), ("nowhere", "does not exist")])
def test_a_place_without_traces_is_named(tmp_path, name, told):
    with pytest.raises(trace_files.TraceError, match=f"{name}: {told}"):
        trace_files.run_files(tmp_path / name)


@pytest.mark.parametrize(
    ("file", "host"),
    [("a_1.xplane.pb", "a_1"), ("a_1.trace.json.gz", "a_1"), ("a.json", "a"), ("plain", "plain")],
)
def test_a_host_is_named_after_its_file(tmp_path, file, host):
    assert trace_files.host_of(tmp_path / file) == host
