"""ResNet-152 (He et al., arXiv 1512.03385)."""

from __future__ import annotations

from tf_dynacomm.models import architectures

_BLOCKS = (3, 8, 36, 3)
_EXPANSION = 4
_SMALL_IMAGE = 64  # Below this height the first convolution keeps the size, and there is no pool.


def network(ops, images, classes: int):
    """Describes the network: 1 convolution, 50 blocks of 3, and a dense layer."""
    small = ops.height(images) < _SMALL_IMAGE
    features = ops.convolution(images, "conv1", 64, 7, strides=1 if small else 2)
    if not small:
        features = ops.max_pool(features, 3, 2)
    for stage, count in enumerate(_BLOCKS):
        filters = 64 * 2**stage
        for number in range(count):
            strides = 2 if number == 0 and stage > 0 else 1
            name = f"conv{stage + 2}_{number + 1}"
            features = _block(ops, features, name, filters, strides, project=number == 0)
    return ops.dense(ops.global_average_pool(features), "fc", classes)


def _block(ops, features, name: str, filters: int, strides: int, *, project: bool):
    """A bottleneck of three convolutions beside a shortcut."""
    inner = ops.convolution(features, f"{name}a", filters, 1, strides=strides)
    inner = ops.convolution(inner, f"{name}b", filters, 3)
    inner = ops.convolution(inner, f"{name}c", _EXPANSION * filters, 1, relu=False)
    if project:
        features = ops.convolution(
            features, f"{name}s", _EXPANSION * filters, 1, strides=strides, relu=False
        )
    return ops.add_relu([inner, features])


def architecture(
    image_shape: tuple[int, int, int] = (224, 224, 3), classes: int = 1000
) -> architectures.Architecture:
    """The table of its 152 layers; 60.19 million parameters for ImageNet."""
    return architectures.describe("resnet152", network, image_shape, classes)


def build(image_shape: tuple[int, int, int], classes: int):
    """Builds the Keras model; arguments and result as in `tf_dynacomm.models.build`."""
    from tf_dynacomm.models import keras_ops

    return keras_ops.build("resnet152", network, image_shape, classes)
