"""The image data sets that the tools train on."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import math
import pathlib
from collections.abc import Callable

import numpy as np

_CIFAR10_FOLDER = "cifar-10-batches-bin"
_CIFAR10_SHAPE = (32, 32, 3)
_CIFAR10_CLASSES = 10
_CIFAR10_RECORD_BYTES = 1 + 32 * 32 * 3
_CIFAR10_FILE_BYTES = 10_000 * _CIFAR10_RECORD_BYTES
_DIGITS_MAX_PIXEL = 16
_DIGITS_SHA256 = "b2dab7b501728c22e9119ad76740b2e17c77a231e42d1e592380d90886f1a05e"
_DIGITS_TEST_EVERY = 5
_MAX_PIXEL = 255
_SYNTHETIC_MAX_VALUES = 1 << 22
_SYNTHETIC_TRAIN_SIZE = 1024
_SYNTHETIC_TEST_SIZE = 64


@dataclasses.dataclass(frozen=True)
class ImageDataset:
    """Images with labels, split into training and test data.

    Attributes:
      name: Name of the data set.
      image_shape: Height, width and channels of an image.
      classes: Number of classes; labels count from 0.
      train_size: Number of training images.
      test_images: Test images [n, height, width, channels], float32 from 0 to 1.
      test_labels: Their labels [n], int32.
    """

    name: str
    image_shape: tuple[int, int, int]
    classes: int
    train_size: int
    test_images: np.ndarray
    test_labels: np.ndarray
    _train_examples: Callable
    _max_pixel: int

    def train_batches(self, batch_size: int, *, seed: int | None = None):
        """Makes an endless `tf.data.Dataset` of training batches, shuffled anew each epoch.

        Call it where the data is needed: in the `dataset_fn` of a `DatasetCreator`, say, so that
        each worker reads for itself.

        Args:
          batch_size: Number of images in a batch.
          seed: Seed of the order. With `None` each iterator has an order of its own, as several
            workers should, lest all of them compute the same gradients. (TensorFlow 2.21 cannot
            do this under `tf.random.set_seed(0)`.)

        Returns:
          A dataset of images [batch_size, height, width, channels], float32 from 0 to 1, and labels
          [batch_size], int32.
        """
        import tensorflow as tf

        def scale(images, labels):
            return tf.cast(images, tf.float32) / self._max_pixel, tf.cast(labels, tf.int32)

        if seed is None:  # Not `None` for `shuffle`: that would follow the global seed.
            seed = tf.raw_ops.NonDeterministicInts(shape=[1], dtype=tf.int64)[0]
        shuffled = self._train_examples().shuffle(self.train_size, seed=seed)
        return shuffled.repeat().batch(batch_size, drop_remainder=True).map(scale).prefetch(2)


def names() -> tuple[str, ...]:
    """Returns the names that `load` knows."""
    return ("cifar10", "digits", "synthetic")


def load(
    name: str,
    data_dir: str | pathlib.Path | None = None,
    *,
    synthetic_shape: tuple[int, int, int] = (32, 32, 3),
    synthetic_classes: int = 10,
) -> ImageDataset:
    """Loads a data set.

    `"digits"` is 1,797 handwritten digits of 8 x 8 pixels, which come with the package; each fifth
    is test data. `"cifar10"` reads the published binary batches, on each worker for itself.
    `"synthetic"` is noise of any shape with random labels, to measure speed with.

    Args:
      name: One of `names()`.
      data_dir: For `"cifar10"`, the folder that holds `data_batch_1.bin` to `data_batch_5.bin` and
        `test_batch.bin`, or holds them in `cifar-10-batches-bin`.
      synthetic_shape: For `"synthetic"`, height, width and channels.
      synthetic_classes: For `"synthetic"`, number of classes.

    Raises:
      ValueError: `name` is unknown.
      ValueError: A file is damaged, not of the right size, or holds labels that there are not.
      ValueError: `data_dir` is needed and not given.
      ValueError: `synthetic_shape` or `synthetic_classes` is not positive, or too large.
      FileNotFoundError: A file is missing.
    """
    if name == "digits":
        return _digits(_digits_path())
    if name == "cifar10":
        return _cifar10(data_dir)
    if name == "synthetic":
        return _synthetic(synthetic_shape, synthetic_classes)
    raise ValueError(f"`name` ({name}) must be one of {', '.join(names())}.")


def _digits_path() -> pathlib.Path:
    """An installed package has `testdata` inside, a source tree beside the package."""
    package = pathlib.Path(__file__).parent
    inside = package / "testdata" / "digits.npz"
    return inside if inside.exists() else package.parent / "testdata" / "digits.npz"


def _digits(path: pathlib.Path) -> ImageDataset:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing: install tf_dynacomm again.") from error
    if hashlib.sha256(data).hexdigest() != _DIGITS_SHA256:
        raise ValueError(f"{path} is damaged: install tf_dynacomm again.")
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        images, labels = arrays["images"][..., np.newaxis], arrays["labels"]
    is_test = np.arange(len(images)) % _DIGITS_TEST_EVERY == _DIGITS_TEST_EVERY - 1
    return _from_arrays(
        "digits",
        10,
        (images[~is_test], labels[~is_test]),
        (images[is_test], labels[is_test]),
        max_pixel=_DIGITS_MAX_PIXEL,
    )


def _from_arrays(name, classes, train, test, *, max_pixel=_MAX_PIXEL) -> ImageDataset:
    def train_examples():
        import tensorflow as tf

        return tf.data.Dataset.from_tensor_slices(train)

    images, labels = test
    return ImageDataset(
        name=name,
        image_shape=images.shape[1:],
        classes=classes,
        train_size=len(train[0]),
        test_images=images.astype(np.float32) / max_pixel,
        test_labels=labels.astype(np.int32),
        _train_examples=train_examples,
        _max_pixel=max_pixel,
    )


def _synthetic(shape: tuple[int, int, int], classes: int) -> ImageDataset:
    if len(shape) != 3 or min(shape) < 1 or math.prod(shape) > _SYNTHETIC_MAX_VALUES:
        raise ValueError(
            f"`synthetic_shape` {tuple(shape)} must be three positive numbers, whose product is "
            f"at most {_SYNTHETIC_MAX_VALUES}."
        )
    if not 1 <= classes <= np.iinfo(np.int32).max:
        raise ValueError(f"`synthetic_classes` ({classes}) must be positive, and an int32.")

    def train_examples():
        # Made where it is used: sent to the workers it would be large.
        import tensorflow as tf

        def example(index):
            image = tf.random.stateless_uniform(shape, [0, index], 0, _MAX_PIXEL + 1, tf.int32)
            return tf.cast(image, tf.uint8), index % classes

        return tf.data.Dataset.range(_SYNTHETIC_TRAIN_SIZE).map(example)

    random = np.random.default_rng(0)
    return ImageDataset(
        name="synthetic",
        image_shape=tuple(shape),
        classes=classes,
        train_size=_SYNTHETIC_TRAIN_SIZE,
        test_images=random.random((_SYNTHETIC_TEST_SIZE, *shape), np.float32),
        test_labels=random.integers(classes, size=_SYNTHETIC_TEST_SIZE, dtype=np.int32),
        _train_examples=train_examples,
        _max_pixel=_MAX_PIXEL,
    )


def _cifar10(data_dir: str | pathlib.Path | None) -> ImageDataset:
    if data_dir is None:
        raise ValueError("`data_dir` must name the folder of the CIFAR-10 binary batches.")
    folder = pathlib.Path(data_dir)
    if (folder / _CIFAR10_FOLDER).is_dir():
        folder = folder / _CIFAR10_FOLDER
    train_paths = [folder / f"data_batch_{number}.bin" for number in range(1, 6)]
    test_path = folder / "test_batch.bin"
    for path in (*train_paths, test_path):
        _check_cifar10_file(path)

    def train_examples():
        # Read where it is used: sent to the workers it would be large.
        import tensorflow as tf

        def example(record):
            values = tf.io.decode_raw(record, tf.uint8)
            planes = tf.reshape(values[1:], _CIFAR10_SHAPE[::-1])
            return tf.transpose(planes, [1, 2, 0]), values[0]

        paths = [str(path.resolve()) for path in train_paths]
        return tf.data.FixedLengthRecordDataset(paths, _CIFAR10_RECORD_BYTES).map(example)

    records = np.fromfile(test_path, np.uint8).reshape(-1, _CIFAR10_RECORD_BYTES)
    planes = records[:, 1:].reshape(-1, *_CIFAR10_SHAPE[::-1])
    return ImageDataset(
        name="cifar10",
        image_shape=_CIFAR10_SHAPE,
        classes=_CIFAR10_CLASSES,
        train_size=sum(path.stat().st_size for path in train_paths) // _CIFAR10_RECORD_BYTES,
        test_images=planes.transpose(0, 2, 3, 1).astype(np.float32) / _MAX_PIXEL,
        test_labels=records[:, 0].astype(np.int32),
        _train_examples=train_examples,
        _max_pixel=_MAX_PIXEL,
    )


def _check_cifar10_file(path: pathlib.Path) -> None:
    remedy = "get cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {remedy}.")
    size_bytes = path.stat().st_size
    if size_bytes != _CIFAR10_FILE_BYTES:
        raise ValueError(
            f"{path} must have {_CIFAR10_FILE_BYTES} bytes but has {size_bytes}: {remedy} again."
        )
    label = np.memmap(path, np.uint8, "r")[::_CIFAR10_RECORD_BYTES].max()
    if label >= _CIFAR10_CLASSES:
        raise ValueError(f"{path} has a label {label}, but there are 0 to 9 only: {remedy} again.")
