"""VGG-19 (Simonyan and Zisserman, arXiv 1409.1556, configuration E)."""

from __future__ import annotations

from tf_dynacomm.models import architectures

_BLOCKS = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))
_HIDDEN_UNITS = 4096


def network(ops, images, classes: int):
    """Describes the network: 16 convolutions and 3 dense layers."""
    features = images
    for block, (count, filters) in enumerate(_BLOCKS, start=1):
        for number in range(1, count + 1):
            name = f"conv{block}_{number}"
            features = ops.convolution(features, name, filters, 3, normalize=False)
        features = ops.max_pool(features, 2, 2)
    for name in ("fc6", "fc7"):
        features = ops.dense(features, name, _HIDDEN_UNITS, relu=True)
        features = ops.dropout(features, 0.5)
    return ops.dense(features, "fc8", classes)


def architecture(
    image_shape: tuple[int, int, int] = (224, 224, 3), classes: int = 1000
) -> architectures.Architecture:
    """The table of its 19 layers; 143.67 million parameters for ImageNet."""
    return architectures.describe("vgg19", network, image_shape, classes)


def build(image_shape: tuple[int, int, int], classes: int):
    """Builds the Keras model; arguments and result as in `tf_dynacomm.models.build`."""
    from tf_dynacomm.models import keras_ops

    return keras_ops.build("vgg19", network, image_shape, classes)
