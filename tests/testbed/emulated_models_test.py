import numpy as np
import pytest

from tf_dynacomm import models
from tf_dynacomm.testbed import emulated_models


def _parameters(stages) -> list[int]:
    return [sum(sum(layer.sizes) for layer in stage.layers) for stage in stages]


@pytest.mark.parametrize("name", models.architecture_names())
def test_layers_hold_what_the_architecture_says(name):
    stages = emulated_models.stages(name, 1.0, 0.5, 1.0)

    assert _parameters(stages) == models.architecture(name).parameters.tolist()


@pytest.mark.parametrize("name", models.architecture_names())
def test_times_are_split_by_multiply_adds(name):
    stages = emulated_models.stages(name, 0.125, 0.5, 1.0)
    multiply_adds = models.architecture(name).multiply_adds
    shares = multiply_adds / multiply_adds.sum()

    assert np.allclose([stage.forward_s for stage in stages], 0.5 * shares)
    assert np.allclose([stage.backward_s for stage in stages], 1.0 * shares)


def test_scale_is_that_of_every_tensor():
    whole, eighth = (emulated_models.stages("vgg19", scale, 1.0, 1.0) for scale in (1.0, 0.125))

    assert sum(_parameters(eighth)) == pytest.approx(0.125 * sum(_parameters(whole)), rel=1e-4)
    assert len(eighth) == len(whole)


def test_smallest_tensors_have_one_element():
    stages = emulated_models.stages("vgg19", 1e-9, 1.0, 1.0)

    assert {size for stage in stages for layer in stage.layers for size in layer.sizes} == {1}


def test_branches_stay_beside_each_other():
    stages = emulated_models.stages("googlenet", 1.0, 1.0, 1.0)

    assert [layer.name for layer in stages[3].layers] == [
        "inception_3a_1x1",
        "inception_3a_3x3_reduce",
        "inception_3a_5x5_reduce",
        "inception_3a_pool",
    ]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_scale_must_be_positive(scale):
    with pytest.raises(ValueError, match=r"`scale` .* must be positive"):
        emulated_models.stages("vgg19", scale, 1.0, 1.0)


def test_unknown_model_is_refused():
    with pytest.raises(ValueError, match="must be one of googlenet"):
        emulated_models.stages("lenet", 1.0, 1.0, 1.0)
