"""Tests of `tf_dynacomm.models`: models by name."""

import numpy as np
import pytest

from tf_dynacomm import models


def test_small_cnn_is_built_by_name():
    assert models.build("small_cnn", (8, 8, 1), 10)(np.zeros((1, 8, 8, 1))).shape == (1, 10)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"`name` \(lenet\) must be one of .*small_cnn"):
        models.build("lenet", (8, 8, 1), 10)
