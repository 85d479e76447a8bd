"""A small convolutional network with batch normalization, for small images."""

from __future__ import annotations

import tf_keras

_FILTERS = (32, 64, 64)
_HIDDEN_UNITS = 128


def build(image_shape: tuple[int, int, int], classes: int) -> tf_keras.Model:
    """Builds three convolutions and two dense layers: about 70,000 parameters, 270 KB.

    Args:
      image_shape: Height, width and channels of an image.
      classes: Number of classes.

    Returns:
      A model from images [n, height, width, channels] to logits [n, classes].
    """
    images = tf_keras.Input(image_shape)
    features = images
    for filters in _FILTERS:
        features = tf_keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(features)
        features = tf_keras.layers.BatchNormalization(momentum=0.9)(features)
        features = tf_keras.layers.ReLU()(features)
    features = tf_keras.layers.GlobalAveragePooling2D()(features)
    features = tf_keras.layers.Dense(_HIDDEN_UNITS, activation="relu")(features)
    logits = tf_keras.layers.Dense(classes)(features)
    return tf_keras.Model(images, logits, name="small_cnn")
