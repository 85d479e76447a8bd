"""Folders of traces: whatever lies in them, a run is read, or the fault told with its place."""

import contextlib
import gzip
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import inputs
from tf_dynacomm.profiling import run, trace, trace_files, xspace

_RUN = inputs.TRACES / "stock"
_FILES = {path.name: path.read_bytes() for path in _RUN.iterdir()}


def _read(path) -> run.Run | None:
    return inputs.read_or_refused(run.load, path, error=trace.TraceError)


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(_RUN, tmp_path / "run")


@inputs.fuzz
@given(st.sampled_from(sorted(_FILES)), st.data())
def test_a_run_with_a_damaged_file_is_read_or_refused(folder, name, data):
    (folder / name).write_bytes(data.draw(inputs.damaged(_FILES[name])))
    _read(folder)
    (folder / name).write_bytes(_FILES[name])


@inputs.fuzz
@given(
    st.sampled_from(["a", *(f"a{suffix}" for suffix in trace_files._SUFFIXES)]),
    st.binary(max_size=40) | st.binary(max_size=40).map(gzip.compress),
)
def test_any_file_of_any_name_is_read_or_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    _read(tmp_path / name)
    _read(tmp_path)
    (tmp_path / name).unlink()


@pytest.mark.parametrize("name", _FILES)
@pytest.mark.parametrize("other", ["empty", "folder", "pipe", "loop", "gone"])
def test_what_is_no_trace_is_refused_and_no_reading_waits(folder, name, other):
    path = folder / name
    path.unlink()
    with contextlib.suppress(KeyError):
        {
            "empty": path.touch,
            "folder": path.mkdir,
            "pipe": lambda: os.mkfifo(path),
            "loop": lambda: path.symlink_to(path),
        }[other]()
    _read(folder)
    _read(path)


@pytest.mark.parametrize("name", ["a", "a.json", "a.xplane.pb"])
def test_folders_that_lead_to_themselves_have_no_trace(tmp_path, name):
    (tmp_path / name).symlink_to(tmp_path)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "profile").symlink_to(tmp_path)
    assert _read(tmp_path) is None
    assert _read(tmp_path / name) is None


def test_a_packed_file_without_end_is_refused_in_bounded_space(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "_MAX_UNPACKED_BYTES", 1 << 21)
    file = tmp_path / "a.xplane.pb.gz"
    file.write_bytes(gzip.compress(bytes(1 << 24)))
    with inputs.memory_below(8 << 20), pytest.raises(trace.TraceError, match="when unpacked"):
        trace.read([file])


def _cut_after_the_first_plane(packed: bytes) -> bytes:
    whole = gzip.decompress(packed)
    _, _, end = next(xspace._fields(whole, 0, len(whole)))
    return gzip.compress(whole[:end])


@pytest.mark.parametrize("name", [name for name in _FILES if name.endswith(".gz")])
def test_a_trace_cut_between_its_planes_is_told_from_the_others(folder, name):
    (folder / name).write_bytes(_cut_after_the_first_plane(_FILES[name]))
    with pytest.raises(trace.TraceError, match=rf"{name}: a truncated trace"):
        run.load(folder)


@inputs.fuzz
@given(st.data())
def test_damaged_captures_are_read_or_refused(data):
    whole = gzip.decompress(_FILES["ps_0.xplane.pb.gz"])
    spaces = {"a:1": data.draw(inputs.damaged(whole)), "b:2": whole}
    inputs.read_or_refused(trace.from_spaces, spaces, error=trace.TraceError)
