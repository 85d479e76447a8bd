"""What a network's layers hold and compute, and what that costs on given hardware.

A network is described once, as a function of an `ops` object that knows convolutions, pools and the
like. `describe` calls it with one that only counts, so that a table of layers needs no TensorFlow;
`tf_dynacomm.models.keras_ops` has the one that builds the Keras model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from tf_dynacomm import costs as costs_lib

_BYTES_PER_PARAMETER = 4  # float32.
_FLOPS_PER_MULTIPLY_ADD = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Architecture:
    """The layers of a network, those at the same depth merged into one.

    Attributes:
      name: The network's name.
      layers: Names of the layers; "conv +2" has two more beside "conv".
      parameters: Number of trainable parameters of each layer; shape (L,).
      multiply_adds: Multiply-adds of each layer's forward computation for one image; shape (L,).
    """

    name: str
    layers: tuple[str, ...]
    parameters: np.ndarray
    multiply_adds: np.ndarray

    def costs(
        self,
        *,
        batch_size: int,
        rate_bytes_per_s: float,
        flops_per_s: float,
        overhead_s: float,
        backward_per_forward: float = 2.0,
    ) -> costs_lib.LayerCosts:
        """Costs of a step as the hardware's figures predict them.

        Args:
          batch_size: Images in a step.
          rate_bytes_per_s: Rate of the link, the same down and up.
          flops_per_s: Floating-point operations per second that the worker reaches; a multiply-add
            is two.
          overhead_s: Seconds that each transmission costs besides its bytes (Δt).
          backward_per_forward: Time of a layer's backward computation, relative to its forward one.

        Raises:
          ValueError: If `batch_size`, a rate or the ratio is not positive, or `overhead_s` is
            negative.
        """
        positive = {
            "batch_size": batch_size,
            "rate_bytes_per_s": rate_bytes_per_s,
            "flops_per_s": flops_per_s,
            "backward_per_forward": backward_per_forward,
        }
        for name, value in positive.items():
            if not value > 0:
                raise ValueError(f"`{name}` ({value}) must be positive.")
        transfer_s = self.parameters * _BYTES_PER_PARAMETER / rate_bytes_per_s
        forward_s = self.multiply_adds * _FLOPS_PER_MULTIPLY_ADD * batch_size / flops_per_s
        backward_s = backward_per_forward * forward_s
        return costs_lib.LayerCosts(
            transfer_s, forward_s, backward_s, transfer_s, overhead_s, names=self.layers
        )


def describe(
    name: str, network: Callable, image_shape: tuple[int, int, int], classes: int
) -> Architecture:
    """Tells a network's layers.

    Args:
      name: The network's name.
      network: Called as `network(ops, images, classes)`.
      image_shape: Height, width and channels of an image.
      classes: Number of classes.
    """
    ops = _CountingOps()
    network(ops, _Features(*image_shape, depth=0), classes)
    return Architecture(
        name,
        tuple(_merged_name(layer.names) for layer in ops.layers),
        np.array([layer.parameters for layer in ops.layers]),
        np.array([layer.multiply_adds for layer in ops.layers]),
    )


@dataclasses.dataclass(frozen=True)
class _Features:
    """A feature map; its depth is the number of layers on the longest way from the images."""

    height: int
    width: int
    channels: int
    depth: int


@dataclasses.dataclass
class _Layer:
    names: list[str] = dataclasses.field(default_factory=list)
    parameters: int = 0
    multiply_adds: int = 0


def _merged_name(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


class _CountingOps:
    """Counts what each layer holds and computes; methods as in `keras_ops.KerasOps`."""

    def __init__(self):
        self.layers: list[_Layer] = []

    def height(self, features) -> int:
        return features.height

    def convolution(
        self, features, name, filters, size, *, strides=1, padding="same", normalize=True, relu=True
    ) -> _Features:
        del relu
        height, width = (size, size) if isinstance(size, int) else size
        out = _slide(features, (height, width), strides, padding)
        weights = height * width * features.channels * filters
        offsets = 2 * filters if normalize else filters
        return self._add(
            dataclasses.replace(out, channels=filters),
            name,
            weights + offsets,
            weights * out.height * out.width,
        )

    def dense(self, features, name, units, *, relu=False) -> _Features:
        del relu
        inputs = features.height * features.width * features.channels
        out = _Features(1, 1, units, features.depth)
        return self._add(out, name, (inputs + 1) * units, inputs * units)

    def max_pool(self, features, size, strides, padding="same") -> _Features:
        return _slide(features, (size, size), strides, padding)

    average_pool = max_pool

    def global_average_pool(self, features) -> _Features:
        return dataclasses.replace(features, height=1, width=1)

    def concatenate(self, branches) -> _Features:
        channels = sum(branch.channels for branch in branches)
        depth = max(branch.depth for branch in branches)
        return dataclasses.replace(branches[0], channels=channels, depth=depth)

    def add_relu(self, branches) -> _Features:
        return dataclasses.replace(branches[0], depth=max(branch.depth for branch in branches))

    def dropout(self, features, rate) -> _Features:
        del rate
        return features

    def _add(self, out: _Features, name: str, parameters: int, multiply_adds: int) -> _Features:
        if out.depth == len(self.layers):
            self.layers.append(_Layer())
        layer = self.layers[out.depth]
        layer.names.append(name)
        layer.parameters += parameters
        layer.multiply_adds += multiply_adds
        return dataclasses.replace(out, depth=out.depth + 1)


def _slide(features: _Features, size: tuple[int, int], strides: int, padding: str) -> _Features:
    """Size of the map that a window leaves."""
    cut = (0, 0) if padding == "same" else (size[0] - 1, size[1] - 1)
    return dataclasses.replace(
        features,
        height=math.ceil((features.height - cut[0]) / strides),
        width=math.ceil((features.width - cut[1]) / strides),
    )
