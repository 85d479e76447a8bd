"""GoogLeNet (Szegedy et al., arXiv 1409.4842), without the auxiliary heads.

Local response normalization, which has no parameters, is left out.
"""

from __future__ import annotations

from tf_dynacomm.models import architectures

_SMALL_IMAGE = 64  # Below this height the first convolution keeps the size, and there is no pool.

# Filters of the 1x1 branch, of 3x3 after its 1x1, of 5x5 after its 1x1, of 1x1 after the pool.
_MODULES = {
    "3a": (64, (96, 128), (16, 32), 32),
    "3b": (128, (128, 192), (32, 96), 64),
    "4a": (192, (96, 208), (16, 48), 64),
    "4b": (160, (112, 224), (24, 64), 64),
    "4c": (128, (128, 256), (24, 64), 64),
    "4d": (112, (144, 288), (32, 64), 64),
    "4e": (256, (160, 320), (32, 128), 128),
    "5a": (256, (160, 320), (32, 128), 128),
    "5b": (384, (192, 384), (48, 128), 128),
}
_POOLED_AFTER = ("3b", "4e")


def network(ops, images, classes: int):
    """Describes the network: 3 convolutions, 9 Inception modules and a dense layer."""
    small = ops.height(images) < _SMALL_IMAGE
    features = _convolution(ops, images, "conv1", 64, 7, strides=1 if small else 2)
    if not small:
        features = ops.max_pool(features, 3, 2)
    features = _convolution(ops, features, "conv2_reduce", 64, 1)
    features = _convolution(ops, features, "conv2", 192, 3)
    features = ops.max_pool(features, 3, 2)
    for name, filters in _MODULES.items():
        features = _inception(ops, features, f"inception_{name}", *filters)
        if name in _POOLED_AFTER:
            features = ops.max_pool(features, 3, 2)
    features = ops.dropout(ops.global_average_pool(features), 0.4)
    return ops.dense(features, "fc", classes)


def _inception(ops, features, name: str, one: int, three: tuple, five: tuple, pooled: int):
    """Four branches beside each other."""
    branches = [_convolution(ops, features, f"{name}_1x1", one, 1)]
    for size, (reduced, filters) in ((3, three), (5, five)):
        inner = _convolution(ops, features, f"{name}_{size}x{size}_reduce", reduced, 1)
        branches.append(_convolution(ops, inner, f"{name}_{size}x{size}", filters, size))
    branches.append(_convolution(ops, ops.max_pool(features, 3, 1), f"{name}_pool", pooled, 1))
    return ops.concatenate(branches)


def _convolution(ops, features, name: str, filters: int, size: int, strides: int = 1):
    return ops.convolution(features, name, filters, size, strides=strides, normalize=False)


def architecture(
    image_shape: tuple[int, int, int] = (224, 224, 3), classes: int = 1000
) -> architectures.Architecture:
    """The table of its 22 layers; 7.0 million parameters for ImageNet."""
    return architectures.describe("googlenet", network, image_shape, classes)


def build(image_shape: tuple[int, int, int], classes: int):
    """Builds the Keras model; arguments and result as in `tf_dynacomm.models.build`."""
    from tf_dynacomm.models import keras_ops

    return keras_ops.build("googlenet", network, image_shape, classes)
