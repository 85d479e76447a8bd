"""Data sets: whatever the files hold, images come, or the file is named."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import inputs
from tf_dynacomm import datasets

_NAMES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
_RECORDS = 3
_SIZE = _RECORDS * datasets._CIFAR10_RECORD_BYTES


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A small data set in the form of CIFAR-10."""
    monkeypatch.setattr(datasets, "_CIFAR10_FILE_BYTES", _SIZE)
    for name in _NAMES:
        (tmp_path / name).write_bytes(bytes(_SIZE))
    return tmp_path


def _load(folder) -> datasets.ImageDataset | None:
    return inputs.read_or_refused(datasets.load, "cifar10", folder, begins=f"{folder}")


@inputs.fuzz
@given(st.sampled_from(_NAMES), st.binary(max_size=50), st.integers(0, 2 * _SIZE))
def test_files_of_other_sizes_are_refused(folder, name, data, size):
    (folder / name).write_bytes(data)
    os.truncate(folder / name, size)
    assert (_load(folder) is None) == (size != _SIZE or max(data[:1], default=0) > 9)
    (folder / name).write_bytes(bytes(_SIZE))


@inputs.fuzz
@given(st.sampled_from(_NAMES), st.integers(0, _RECORDS - 1), st.integers(0, 255))
def test_labels_that_there_are_not_are_refused(folder, name, record, label):
    content = bytearray(_SIZE)
    content[record * datasets._CIFAR10_RECORD_BYTES] = label
    (folder / name).write_bytes(content)
    data = _load(folder)
    assert (data is None) == (label > 9)
    assert data is None or data.test_labels.max() <= 9
    (folder / name).write_bytes(bytes(_SIZE))


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("make", ["mkdir", "symlink_to", "mkfifo", "unlink"])
def test_what_is_no_file_is_named(folder, name, make):
    path = folder / name
    path.unlink()
    if make == "mkfifo":
        os.mkfifo(path)
    elif make != "unlink":
        getattr(path, make)(*[path] * (make == "symlink_to"))
    with pytest.raises(FileNotFoundError, match=f"{name} is missing"):
        datasets.load("cifar10", folder)


@inputs.fuzz
@given(st.data())
def test_damaged_digits_are_refused(tmp_path, data):
    whole = datasets._digits_path().read_bytes()
    damaged = data.draw(inputs.damaged(whole))
    (tmp_path / "digits.npz").write_bytes(damaged)
    found = inputs.read_or_refused(datasets._digits, tmp_path / "digits.npz")
    assert (found is None) == (damaged != whole)


@inputs.fuzz
@given(st.lists(st.integers(-1, 1 << 70), max_size=4), st.integers(-1, 1 << 70))
def test_synthetic_images_of_any_form_are_made_or_refused(shape, classes):
    data = inputs.read_or_refused(datasets._synthetic, tuple(shape), classes)
    assert data is None or np.isfinite(data.test_images).all()
