"""Reproduces the figures of the DynaComm paper (arXiv 2101.07968) by timeline.

    python benchmarks/paper.py

What each layer holds and computes follows from the architectures. Three constants stand for the
testbed, which is not at hand: how fast the worker computes, the ratio of backward to forward
computation, and Δt. They are fitted to the paper's reductions at batch size 32, once for each model
because operations of different models are not equally fast; the rest is prediction.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tf_dynacomm import LayerCosts, models, schedulers, timeline

_RATE_BYTES_PER_S = 10e9 / 8
_BATCH_SIZE = 32
_PHASES = ("forward", "backward", "iteration")
_SCHEDULERS = ("layer_by_layer", "ibatch", "dynacomm")

Figure = tuple[str, str]
"""A phase and a scheduler."""

# Reductions of time against the sequential schedule, in percent.
PAPER: dict[str, dict[Figure, float]] = {
    "vgg19": {
        ("forward", "layer_by_layer"): 40.54,
        ("forward", "ibatch"): 42.79,
        ("forward", "dynacomm"): 42.86,
        ("backward", "dynacomm"): 39.35,
        ("iteration", "dynacomm"): 41.10,
    },
    "googlenet": {("iteration", "dynacomm"): 30.19},
    "inception_v4": {
        ("forward", "layer_by_layer"): 35.25,
        ("forward", "ibatch"): 24.22,
        ("forward", "dynacomm"): 39.99,
        ("backward", "dynacomm"): 27.55,
        ("iteration", "dynacomm"): 33.78,
    },
    "resnet152": {
        ("forward", "layer_by_layer"): 10.56,
        ("forward", "ibatch"): 30.02,
        ("forward", "dynacomm"): 43.84,
        ("backward", "dynacomm"): 30.29,
        ("iteration", "dynacomm"): 37.06,
    },
}
_SPEEDUPS = {"dynacomm": 7.2, "ibatch": 6.2, "layer_by_layer": 5.4}  # ResNet-152, 8 workers.


@dataclasses.dataclass(frozen=True)
class Testbed:
    """A model on the paper's testbed.

    Attributes:
      model: The model's name.
      flops_per_s: Operations per second that the worker reaches.
      backward_per_forward: Time of backward computation, relative to forward computation.
      overhead_s: Δt.
    """

    model: str
    flops_per_s: float
    backward_per_forward: float
    overhead_s: float

    def costs(
        self, batch_size: int = _BATCH_SIZE, rate_bytes_per_s: float = _RATE_BYTES_PER_S
    ) -> LayerCosts:
        """Costs of a step."""
        return models.architecture(self.model).costs(
            batch_size=batch_size,
            rate_bytes_per_s=rate_bytes_per_s,
            flops_per_s=self.flops_per_s,
            overhead_s=self.overhead_s,
            backward_per_forward=self.backward_per_forward,
        )


def play(costs: LayerCosts, scheduler: str) -> timeline.Timeline:
    """Plays a step as a scheduler plans it."""
    return timeline.simulate(costs, schedulers.get(scheduler)(costs))


def reductions(costs: LayerCosts, names: Sequence[str] = _SCHEDULERS) -> dict[Figure, float]:
    """Reductions of time against the sequential schedule, in percent, of each phase."""
    before = play(costs, "sequential")
    found = {}
    for name in names:
        after = play(costs, name)
        for phase in _PHASES:
            found[phase, name] = 100 * (1 - _time_s(after, phase) / _time_s(before, phase))
    return found


def _time_s(step: timeline.Timeline, phase: str) -> float:
    return getattr(step, f"{phase}_s")


def fit(model: str) -> Testbed:
    """Fits the constants of a model to its reductions at batch size 32, but for those of iBatch."""
    figures = {key: value for key, value in PAPER[model].items() if key[1] != "ibatch"}
    names = sorted({name for _, name in figures})

    def error(logarithms: np.ndarray) -> float:
        found = reductions(_testbed(model, logarithms).costs(), names)
        return sum((found[key] - value) ** 2 for key, value in figures.items())

    starts = itertools.product((0.7e12, 1.5e12, 3e12, 6e12), (0.8, 1.6), (0.5e-3, 3e-3))
    found = (_descend(error, np.log(start)) for start in starts)
    return _testbed(model, min(found, key=error))


def _testbed(model: str, logarithms: np.ndarray) -> Testbed:
    return Testbed(model, *np.exp(logarithms).tolist())


def _descend(error: Callable[[np.ndarray], float], start: np.ndarray) -> np.ndarray:
    """Goes downhill along the axes, in ever shorter strides."""
    best, least, stride = start, error(start), 0.4
    while stride > 1e-3:
        steps = stride * np.vstack([np.eye(len(best)), -np.eye(len(best))])
        nearest = min(best + steps, key=error)
        if error(nearest) < least:
            best, least = nearest, error(nearest)
        else:
            stride /= 2
    return best


if __name__ == "__main__":
    import time
    for m in PAPER:
        t=time.time()
        b = fit(m); c=b.costs()
        f = reductions(c,[n for n in _SCHEDULERS if n in schedulers.names()])
        print(b, c.pull_s.sum(), c.forward_s.sum(), time.time()-t)
        for k, v in PAPER[m].items():
            print("   ", k, v, f.get(k))
