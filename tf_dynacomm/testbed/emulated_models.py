"""The paper's four models on an emulated accelerator, at a scale.

A layer keeps its tensors (kernel, and bias or scale and offset), each of `scale` times as many
elements; the times of the whole model are split over the layers by their multiply-adds.
"""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable

import numpy as np

from tf_dynacomm import models
from tf_dynacomm.models import architectures
from tf_dynacomm.testbed import accelerator

_NETWORKS = {
    "googlenet": "tf_dynacomm.models.googlenet",
    "inception_v4": "tf_dynacomm.models.inception",
    "resnet152": "tf_dynacomm.models.resnet",
    "vgg19": "tf_dynacomm.models.vgg",
}
_IMAGE_SIDES = {"inception_v4": 299}
_CLASSES = 1000


def stages(name: str, scale: float, forward_s: float, backward_s: float) -> list[accelerator.Stage]:
    """Describes a model for `accelerator.build`.

    Args:
      name: One of `models.architecture_names()`.
      scale: Size of each tensor against the real one's.
      forward_s: Seconds of the whole forward computation.
      backward_s: Seconds of the whole backward computation.

    Raises:
      ValueError: `name` is unknown, `scale` is not positive, or a time is negative or not finite.
    """
    if not scale > 0:
        raise ValueError(f"`scale` ({scale}) must be positive.")
    multiply_adds = models.architecture(name).multiply_adds
    shares = multiply_adds / multiply_adds.sum()
    return [
        accelerator.Stage(
            tuple(
                accelerator.Tensors(layer, tuple(max(1, round(scale * size)) for size in sizes))
                for layer, sizes in beside.items()
            ),
            *(share * np.array([forward_s, backward_s])).tolist(),
        )
        for share, beside in zip(shares, _tensors(name), strict=True)
    ]


def _tensors(name: str) -> list[dict[str, list[int]]]:
    """Sizes of the tensors of each layer, by depth and by the layer's name."""
    depths = collections.defaultdict(dict)

    def network(ops, images, classes: int):
        module = importlib.import_module(_NETWORKS[name])
        return module.network(_Recorder(ops, depths), images, classes)

    side = _IMAGE_SIDES.get(name, 224)
    architectures.describe(name, network, (side, side, 3), _CLASSES)
    return [depths[depth] for depth in sorted(depths)]


class _Recorder:
    """Notes the tensors of the layers that a network asks `ops` for.

    Args:
      ops: What the network is described by; see `architectures.describe`.
      depths: Where the sizes go: by depth, then by the layer's name.
    """

    def __init__(self, ops, depths: dict[int, dict[str, list[int]]]):
        self._ops = ops
        self._depths = depths

    def __getattr__(self, name: str) -> Callable:
        return getattr(self._ops, name)

    def convolution(self, features, name, filters, size, *, normalize=True, **options):
        """A convolution: its kernel, then its scale and offset, or else its bias."""
        height, width = (size, size) if isinstance(size, int) else size
        kernel = height * width * features.channels * filters
        offsets = [filters, filters] if normalize else [filters]
        self._depths[features.depth][name] = [kernel, *offsets]
        return self._ops.convolution(features, name, filters, size, normalize=normalize, **options)

    def dense(self, features, name, units, **options):
        """A fully connected layer: its kernel and its bias."""
        inputs = features.height * features.width * features.channels
        self._depths[features.depth][name] = [inputs * units, units]
        return self._ops.dense(features, name, units, **options)
