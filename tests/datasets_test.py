"""Tests of `tf_dynacomm.datasets`."""

import numpy as np
import pytest

from tf_dynacomm import datasets

_RECORDS, _RECORD_BYTES = 10_000, 3073


@pytest.fixture
def cifar10_dir(tmp_path):
    """CIFAR-10 files of zeros, in which the first record of each has a label and one red pixel."""
    for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        record = np.zeros(_RECORD_BYTES, np.uint8)
        record[0], record[1 + 32 * 2 + 5] = number, 255
        with open(tmp_path / f"{name}.bin", "wb") as file:
            file.write(record.tobytes())
            file.truncate(_RECORDS * _RECORD_BYTES)
    return tmp_path


def _batch(data, batch_size=4, **kwargs):
    images, labels = next(data.train_batches(batch_size, **kwargs).as_numpy_iterator())
    return images, labels


def test_names_are_loadable(cifar10_dir):
    assert [datasets.load(name, cifar10_dir).name for name in datasets.names()] == list(
        datasets.names()
    )


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"`name` \(mnist\) must be one of cifar10, digits"):
        datasets.load("mnist")


def test_digits_are_split_into_1438_and_359():
    digits = datasets.load("digits")

    assert digits.train_size == 1438
    assert digits.test_images.shape == (359, 8, 8, 1)
    assert digits.test_labels.shape == (359,)


def test_digits_are_scaled_and_have_all_classes():
    digits = datasets.load("digits")

    assert (digits.test_images.min(), digits.test_images.max()) == (0, 1)
    assert set(digits.test_labels) == set(range(digits.classes))


def test_no_test_digit_is_trained_on():
    digits = datasets.load("digits")
    images, _ = _batch(digits, digits.train_size, seed=1)

    trained = {image.tobytes() for image in images}

    assert len(trained) == digits.train_size
    assert not trained & {image.tobytes() for image in digits.test_images}


def test_missing_digits_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"digits.npz is missing: install"):
        datasets._digits(tmp_path / "digits.npz")


@pytest.mark.parametrize("size_bytes", [0, 100, 20_000])
def test_truncated_digits_are_named(tmp_path, size_bytes):
    whole = datasets._digits_path().read_bytes()
    (tmp_path / "digits.npz").write_bytes(whole[:size_bytes])

    with pytest.raises(ValueError, match=r"digits.npz is damaged: install"):
        datasets._digits(tmp_path / "digits.npz")


def test_batches_have_the_promised_form():
    images, labels = _batch(datasets.load("digits"), 7)

    assert (images.shape, images.dtype) == ((7, 8, 8, 1), np.float32)
    assert (labels.shape, labels.dtype) == ((7,), np.int32)
    assert 0 < images.max() <= 1


def test_same_seed_gives_the_same_order():
    digits = datasets.load("digits")

    np.testing.assert_array_equal(_batch(digits, seed=3)[0], _batch(digits, seed=3)[0])
    assert not np.array_equal(_batch(digits, seed=3)[0], _batch(digits, seed=4)[0])


def test_order_without_seed_differs_even_under_a_global_seed():
    import tensorflow as tf

    digits = datasets.load("digits")
    tf.random.set_seed(1)
    orders = set()
    for _ in range(3):
        tf.random.set_seed(1)
        orders.add(_batch(digits)[0].tobytes())

    assert len(orders) > 1


def test_each_epoch_has_a_new_order_of_all_images():
    digits = datasets.load("digits")
    epochs = digits.train_batches(digits.train_size, seed=1).take(2).as_numpy_iterator()

    (first, _), (second, _) = epochs

    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(np.sort(first.sum((1, 2, 3))), np.sort(second.sum((1, 2, 3))))


def test_cifar10_test_images_have_rows_columns_and_channels(cifar10_dir):
    cifar10 = datasets.load("cifar10", cifar10_dir)

    assert cifar10.test_images.shape == (10_000, 32, 32, 3)
    assert cifar10.test_labels[0] == 5
    assert np.argwhere(cifar10.test_images[0]).tolist() == [[2, 5, 0]]


def test_cifar10_training_reads_all_five_files(cifar10_dir):
    cifar10 = datasets.load("cifar10", cifar10_dir)
    marked = [
        (image, label)
        for image, label in cifar10._train_examples().as_numpy_iterator()
        if image.any()
    ]

    assert cifar10.train_size == 50_000
    assert [label for _, label in marked] == [0, 1, 2, 3, 4]
    assert all(np.argwhere(image).tolist() == [[2, 5, 0]] for image, _ in marked)


def test_cifar10_is_found_in_its_own_folder(cifar10_dir):
    folder = cifar10_dir / "cifar-10-batches-bin"
    folder.mkdir()
    for path in cifar10_dir.glob("*.bin"):
        path.rename(folder / path.name)

    assert datasets.load("cifar10", cifar10_dir).train_size == 50_000


def test_cifar10_needs_a_folder():
    with pytest.raises(ValueError, match="`data_dir` must name"):
        datasets.load("cifar10")


def test_missing_cifar10_file_is_named(cifar10_dir):
    (cifar10_dir / "data_batch_4.bin").unlink()

    with pytest.raises(FileNotFoundError, match=r"data_batch_4.bin is missing: get cifar-10-bin"):
        datasets.load("cifar10", cifar10_dir)


def test_truncated_cifar10_file_is_named(cifar10_dir):
    with open(cifar10_dir / "test_batch.bin", "r+b") as file:
        file.truncate(3073 * 9_999)

    with pytest.raises(ValueError, match=r"test_batch.bin must have 30730000 bytes but has 30726"):
        datasets.load("cifar10", cifar10_dir)


def test_synthetic_has_the_shape_that_was_asked_for():
    data = datasets.load("synthetic", synthetic_shape=(5, 6, 2), synthetic_classes=3)
    images, labels = _batch(data, 64)

    assert images.shape == (64, 5, 6, 2)
    assert data.test_images.shape[1:] == data.image_shape == (5, 6, 2)
    assert set(labels) == set(range(3))


def test_synthetic_images_differ():
    images, _ = _batch(datasets.load("synthetic"), 16)

    assert len({image.tobytes() for image in images}) == 16


@pytest.mark.parametrize("shape", [(1, 2), (0, 4, 4), (4, 4, -1), (4096, 4096, 3)])
def test_synthetic_shape_is_checked(shape):
    with pytest.raises(ValueError, match=r"`synthetic_shape` .* must be three positive"):
        datasets.load("synthetic", synthetic_shape=shape)


@pytest.mark.parametrize("classes", [0, 2**31])
def test_synthetic_classes_are_checked(classes):
    with pytest.raises(ValueError, match=rf"`synthetic_classes` \({classes}\) must be positive"):
        datasets.load("synthetic", synthetic_classes=classes)
