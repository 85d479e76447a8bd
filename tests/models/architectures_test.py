import subprocess
import sys

import numpy as np
import pytest

from tf_dynacomm import models
from tf_dynacomm.models import architectures, googlenet, inception, resnet, vgg

_MODULES = {"vgg19": vgg, "googlenet": googlenet, "inception_v4": inception, "resnet152": resnet}


@pytest.mark.parametrize(
    ("name", "layers", "parameters", "multiply_adds"),
    [
        # Parameters as torchvision, BVLC (GoogLeNet) and timm (Inception-v4) have them;
        # multiply-adds as the papers round them.
        ("vgg19", 19, 143_667_240, 19.6e9),
        ("googlenet", 22, 6_998_552, 1.58e9),
        ("inception_v4", 76, 42_679_816, 12.3e9),
        ("resnet152", 152, 60_192_808, 11.3e9),
    ],
)
def test_totals_are_those_of_the_literature(name, layers, parameters, multiply_adds):
    found = models.architecture(name)
    assert len(found.layers) == len(found.parameters) == len(found.multiply_adds) == layers
    assert found.parameters.sum() == parameters
    assert found.multiply_adds.sum() == pytest.approx(multiply_adds, rel=0.005)


@pytest.mark.parametrize("name", _MODULES)
def test_keras_model_has_the_parameters_of_the_table(name):
    shape, classes = (32, 32, 3), 10
    model = models.build(name, shape, classes)
    parameters = sum(weight.shape.num_elements() for weight in model.trainable_weights)
    assert parameters == _MODULES[name].architecture(shape, classes).parameters.sum()
    assert model.output_shape == (None, classes)


def test_tables_do_not_load_tensorflow():
    program = (
        "import sys; from tf_dynacomm import models;"
        "[models.architecture(name) for name in models.architecture_names()];"
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_model_without_a_table():
    with pytest.raises(ValueError, match=r"^`name` \(small_cnn\) must be one of googlenet, "):
        models.architecture("small_cnn")


def _branches(ops, images, classes):
    short = ops.convolution(images, "short", 4, 1)
    long = ops.convolution(images, "long1", 2, 1)
    long = ops.convolution(long, "long2", 8, 3, strides=2, padding="valid", normalize=False)
    return ops.dense(ops.concatenate([long, ops.max_pool(short, 3, 2, "valid")]), "last", classes)


def test_layers_at_the_same_depth_count_as_one():
    found = architectures.describe("branches", _branches, (5, 5, 3), 10)
    assert found.layers == ("short +1", "long2", "last")
    assert found.parameters.tolist() == [
        (3 * 4 + 2 * 4) + (3 * 2 + 2 * 2),
        9 * 2 * 8 + 8,
        2 * 2 * 12 * 10 + 10,
    ]
    assert found.multiply_adds.tolist() == [25 * 3 * (4 + 2), 4 * 9 * 2 * 8, 2 * 2 * 12 * 10]


def _hardware(**changes):
    figures = {"batch_size": 2, "rate_bytes_per_s": 1e3, "flops_per_s": 1e6, "overhead_s": 0.1}
    return {**figures, **changes}


def test_costs_are_bytes_at_the_rate_and_operations_at_the_speed():
    table = architectures.Architecture("one", ("a",), np.array([250]), np.array([750_000]))
    costs = table.costs(**_hardware(backward_per_forward=1.5))
    assert (costs.pull_s[0], costs.push_s[0], costs.overhead_s) == (1, 1, (0.1, 0.1))
    assert (costs.forward_s[0], costs.backward_s[0]) == (3, 4.5)
    assert costs.names == ("a",)


@pytest.mark.parametrize(
    "name", ["batch_size", "rate_bytes_per_s", "flops_per_s", "backward_per_forward"]
)
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_figures_must_be_positive(name, value):
    with pytest.raises(ValueError, match=rf"^`{name}` \({value}\) must be positive\.$"):
        vgg.architecture().costs(**_hardware(**{name: value}))
