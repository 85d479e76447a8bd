"""Tests of `tf_dynacomm.models.small_cnn`."""

import numpy as np
import pytest
import tf_keras

from tf_dynacomm.models import small_cnn


@pytest.mark.parametrize("shape", [(8, 8, 1), (32, 32, 3)])
def test_gives_a_logit_for_each_class(shape):
    model = small_cnn.build(shape, 7)

    assert model(np.zeros((2, *shape), np.float32)).shape == (2, 7)


def test_is_as_large_as_it_says():
    size_bytes = sum(4 * np.prod(v.shape) for v in small_cnn.build((8, 8, 1), 10).variables)

    assert 250e3 < size_bytes < 290e3


def test_has_batch_normalization_that_is_trained():
    model = small_cnn.build((8, 8, 1), 10)
    normalizations = [
        layer for layer in model.layers if isinstance(layer, tf_keras.layers.BatchNormalization)
    ]

    assert len(normalizations) == 3
    assert all(len(layer.non_trainable_variables) == 2 for layer in normalizations)
