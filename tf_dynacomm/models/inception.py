"""Inception-v4 (Szegedy et al., arXiv 1602.07261)."""

from __future__ import annotations

from tf_dynacomm.models import architectures

_SMALL_IMAGE = 75  # Below this height the first convolution keeps the size, and all are padded.


def network(ops, images, classes: int):
    """Describes the network: a stem, 4 modules A, 7 modules B, 3 modules C and a dense layer."""
    small = ops.height(images) < _SMALL_IMAGE
    padding = "same" if small else "valid"
    features = _stem(ops, images, 1 if small else 2, padding)
    for number in range(1, 5):
        features = _module_a(ops, features, f"a{number}")
    features = _reduction_a(ops, features, padding)
    for number in range(1, 8):
        features = _module_b(ops, features, f"b{number}")
    features = _reduction_b(ops, features, padding)
    for number in range(1, 4):
        features = _module_c(ops, features, f"c{number}")
    features = ops.dropout(ops.global_average_pool(features), 0.2)
    return ops.dense(features, "fc", classes)


def _chain(ops, features, name: str, *convolutions: tuple):
    """Convolutions (filters, size) one after the other."""
    for number, (filters, size) in enumerate(convolutions, start=1):
        features = ops.convolution(features, f"{name}_{number}", filters, size)
    return features


def _stem(ops, images, strides: int, padding: str):
    features = ops.convolution(images, "stem1", 32, 3, strides=strides, padding=padding)
    features = ops.convolution(features, "stem2", 32, 3, padding=padding)
    features = ops.convolution(features, "stem3", 64, 3)
    features = _pool_beside(ops, features, "stem4", 96, padding)
    short = _chain(ops, features, "stem5a", (64, 1))
    long = _chain(ops, features, "stem5b", (64, 1), (64, (7, 1)), (64, (1, 7)))
    features = ops.concatenate(
        [
            ops.convolution(short, "stem6a", 96, 3, padding=padding),
            ops.convolution(long, "stem6b", 96, 3, padding=padding),
        ]
    )
    return _pool_beside(ops, features, "stem7", 192, padding)


def _pool_beside(ops, features, name: str, filters: int, padding: str):
    """Halves the size by a pool and by a convolution."""
    return ops.concatenate(
        [
            ops.max_pool(features, 3, 2, padding),
            ops.convolution(features, name, filters, 3, strides=2, padding=padding),
        ]
    )


def _module_a(ops, features, name: str):
    pooled = ops.average_pool(features, 3, 1)
    return ops.concatenate(
        [
            _chain(ops, pooled, f"{name}_pool", (96, 1)),
            _chain(ops, features, f"{name}_1x1", (96, 1)),
            _chain(ops, features, f"{name}_3x3", (64, 1), (96, 3)),
            _chain(ops, features, f"{name}_5x5", (64, 1), (96, 3), (96, 3)),
        ]
    )


def _reduction_a(ops, features, padding: str):
    inner = _chain(ops, features, "reduction_a1", (192, 1), (224, 3))
    return ops.concatenate(
        [
            _pool_beside(ops, features, "reduction_a2", 384, padding),
            ops.convolution(inner, "reduction_a3", 256, 3, strides=2, padding=padding),
        ]
    )


def _module_b(ops, features, name: str):
    pooled = ops.average_pool(features, 3, 1)
    once = ((192, 1), (224, (1, 7)), (256, (7, 1)))
    twice = ((192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1)))
    return ops.concatenate(
        [
            _chain(ops, pooled, f"{name}_pool", (128, 1)),
            _chain(ops, features, f"{name}_1x1", (384, 1)),
            _chain(ops, features, f"{name}_7x7", *once),
            _chain(ops, features, f"{name}_13x13", *twice),
        ]
    )


def _reduction_b(ops, features, padding: str):
    short = _chain(ops, features, "reduction_b1", (192, 1))
    long = _chain(ops, features, "reduction_b2", (256, 1), (256, (1, 7)), (320, (7, 1)))
    return ops.concatenate(
        [
            ops.max_pool(features, 3, 2, padding),
            ops.convolution(short, "reduction_b3", 192, 3, strides=2, padding=padding),
            ops.convolution(long, "reduction_b4", 320, 3, strides=2, padding=padding),
        ]
    )


def _module_c(ops, features, name: str):
    pooled = ops.average_pool(features, 3, 1)
    short = _chain(ops, features, f"{name}_3x3", (384, 1))
    long = _chain(ops, features, f"{name}_5x5", (384, 1), (448, (1, 3)), (512, (3, 1)))
    return ops.concatenate(
        [
            _chain(ops, pooled, f"{name}_pool", (256, 1)),
            _chain(ops, features, f"{name}_1x1", (256, 1)),
            _chain(ops, short, f"{name}_3x3_wide", (256, (1, 3))),
            _chain(ops, short, f"{name}_3x3_tall", (256, (3, 1))),
            _chain(ops, long, f"{name}_5x5_tall", (256, (3, 1))),
            _chain(ops, long, f"{name}_5x5_wide", (256, (1, 3))),
        ]
    )


def architecture(
    image_shape: tuple[int, int, int] = (299, 299, 3), classes: int = 1000
) -> architectures.Architecture:
    """The table of its layers; 42.7 million parameters for ImageNet."""
    return architectures.describe("inception_v4", network, image_shape, classes)


def build(image_shape: tuple[int, int, int], classes: int):
    """Builds the Keras model; arguments and result as in `tf_dynacomm.models.build`."""
    from tf_dynacomm.models import keras_ops

    return keras_ops.build("inception_v4", network, image_shape, classes)
