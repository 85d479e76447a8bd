"""The parts of which networks are described, as layers of a Keras model."""

from __future__ import annotations

from collections.abc import Callable

import tf_keras


def build(
    name: str, network: Callable, image_shape: tuple[int, int, int], classes: int
) -> tf_keras.Model:
    """Builds a network that is described as in `tf_dynacomm.models.architectures`.

    Args:
      name: The model's name.
      network: Called as `network(ops, images, classes)`.
      image_shape: Height, width and channels of an image.
      classes: Number of classes.

    Returns:
      A model from images [n, height, width, channels] to logits [n, classes].
    """
    images = tf_keras.Input(image_shape)
    return tf_keras.Model(images, network(KerasOps(), images, classes), name=name)


class KerasOps:
    """Makes Keras layers."""

    def height(self, features) -> int:
        """The features' height."""
        return features.shape[1]

    def convolution(
        self, features, name, filters, size, *, strides=1, padding="same", normalize=True, relu=True
    ):
        """A convolution with batch normalization, or with a bias instead, and then ReLU."""
        features = tf_keras.layers.Conv2D(
            filters,
            size,
            strides,
            padding,
            use_bias=not normalize,
            kernel_initializer="he_normal",
            name=name,
        )(features)
        if normalize:
            features = tf_keras.layers.BatchNormalization(name=f"{name}_bn")(features)
        return tf_keras.layers.ReLU(name=f"{name}_relu")(features) if relu else features

    def dense(self, features, name, units, *, relu=False):
        """A fully connected layer on all of the features."""
        flat = tf_keras.layers.Flatten()(features)
        return tf_keras.layers.Dense(units, "relu" if relu else None, name=name)(flat)

    def max_pool(self, features, size, strides, padding="same"):
        """The largest in each window."""
        return tf_keras.layers.MaxPooling2D(size, strides, padding)(features)

    def average_pool(self, features, size, strides, padding="same"):
        """The mean of each window."""
        return tf_keras.layers.AveragePooling2D(size, strides, padding)(features)

    def global_average_pool(self, features):
        """The mean of each channel."""
        return tf_keras.layers.GlobalAveragePooling2D(keepdims=True)(features)

    def concatenate(self, branches):
        """All channels of all branches."""
        return tf_keras.layers.Concatenate()(branches)

    def add_relu(self, branches):
        """The sum of the branches, and then ReLU."""
        return tf_keras.layers.ReLU()(tf_keras.layers.Add()(branches))

    def dropout(self, features, rate):
        """Drops a share `rate` of the features in training."""
        return tf_keras.layers.Dropout(rate)(features)
