"""The models that the tools train, by name."""

from __future__ import annotations

import importlib

_MODULES = {
    "googlenet": "tf_dynacomm.models.googlenet",
    "inception_v4": "tf_dynacomm.models.inception",
    "resnet152": "tf_dynacomm.models.resnet",
    "small_cnn": "tf_dynacomm.models.small_cnn",
    "vgg19": "tf_dynacomm.models.vgg",
}
_WITHOUT_ARCHITECTURE = ("small_cnn",)


def names() -> tuple[str, ...]:
    """Returns the names that `build` knows."""
    return tuple(sorted(_MODULES))


def build(name: str, image_shape: tuple[int, int, int], classes: int):
    """Builds a model by name.

    Args:
      name: One of `names()`.
      image_shape: Height, width and channels of an image.
      classes: Number of classes.

    Returns:
      A `tf_keras.Model` from images [n, height, width, channels] to logits [n, classes].

    Raises:
      ValueError: `name` is unknown.
    """
    if name not in _MODULES:
        raise ValueError(f"`name` ({name}) must be one of {', '.join(names())}.")
    return importlib.import_module(_MODULES[name]).build(image_shape, classes)


def architecture_names() -> tuple[str, ...]:
    """Returns the names that `architecture` knows."""
    return tuple(name for name in names() if name not in _WITHOUT_ARCHITECTURE)


def architecture(name: str):
    """Tells the layers of a model for ImageNet; TensorFlow is not loaded.

    Args:
      name: One of `architecture_names()`.

    Returns:
      A `tf_dynacomm.models.architectures.Architecture`.

    Raises:
      ValueError: `name` is unknown.
    """
    if name not in architecture_names():
        raise ValueError(f"`name` ({name}) must be one of {', '.join(architecture_names())}.")
    return importlib.import_module(_MODULES[name]).architecture()
