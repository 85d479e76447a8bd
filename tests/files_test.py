import json
import os
import stat

import hypothesis
import pytest
from hypothesis import strategies as st

from tf_dynacomm import files

_CONTENTS = st.dictionaries(
    st.text().filter(lambda key: key not in ("format", "version")),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.json"


@hypothesis.given(_CONTENTS)
def test_what_was_written_is_read(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("files") / "file.json"
    files.write(path, "costs", 1, content)
    assert files.read(path, "costs", 1) == {"format": "tf_dynacomm.costs", "version": 1, **content}


def test_file_can_be_read_by_whom_the_umask_allows(path):
    before = os.umask(0o027)
    try:
        files.write(path, "costs", 1, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_earlier_file_is_replaced(path):
    files.write(path, "costs", 1, {"a": 1})
    files.write(path, "costs", 1, {"a": 2})
    assert files.read(path, "costs", 1)["a"] == 2
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_earlier_file_stays_when_writing_fails(path, value):
    files.write(path, "costs", 1, {"a": 1})
    with pytest.raises((ValueError, TypeError)):
        files.write(path, "costs", 1, {"a": value})
    assert files.read(path, "costs", 1)["a"] == 1
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_left_behind_when_the_file_cannot_be_replaced(path):
    path.mkdir()
    with pytest.raises(OSError, match=r"file\.json"):
        files.write(path, "costs", 1, {})
    assert list(path.parent.iterdir()) == [path]


def test_folder_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.write(tmp_path / "missing" / "file.json", "costs", 1, {})


def test_missing_file(path):
    with pytest.raises(FileNotFoundError):
        files.read(path, "costs", 1)


@pytest.mark.parametrize("damaged", [b"", b"{", b"\xff\xfe\x00", b"\x00" * 9, b"[" * 100_000])
def test_damaged_file(path, damaged):
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"file\.json: not JSON, or cut short"):
        files.read(path, "costs", 1)


@hypothesis.given(st.data())
def test_file_that_is_cut_short(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("files") / "file.json"
    files.write(path, "costs", 1, {"a": [1.5, 2.5]})
    whole = path.read_bytes().rstrip()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ValueError, match=r"file\.json: not JSON, or cut short"):
        files.read(path, "costs", 1)


@pytest.mark.parametrize(
    "foreign",
    [[], 1, None, {}, {"version": 1}, {"format": "costs"}, {"format": "tf_dynacomm.plan"}],
)
def test_foreign_file(path, foreign):
    path.write_text(json.dumps(foreign))
    with pytest.raises(ValueError, match=r"file\.json: not a file of costs"):
        files.read(path, "costs", 1)


@pytest.mark.parametrize("version", [2, 0, None, "1"])
def test_file_of_another_version(path, version):
    files.write(path, "costs", version, {})
    message = rf"file\.json: version {version!r} of costs; this tf_dynacomm reads version 1\."
    with pytest.raises(ValueError, match=message):
        files.read(path, "costs", 1)
