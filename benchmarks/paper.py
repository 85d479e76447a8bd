"""Reproduces the figures of the DynaComm paper (arXiv 2101.07968) by timeline.

    python benchmarks/paper.py

What each layer holds and computes follows from the architectures. Three constants stand for the
testbed, which is not at hand: how fast the worker computes, the ratio of backward to forward
computation, and Δt. They are fitted to the paper's reductions at batch size 32, once for each model
because operations of different models are not equally fast; the rest is prediction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import paper_predictions

from tf_dynacomm import LayerCosts, models, schedulers, timeline
from tf_dynacomm.schedulers import makespan

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
_FLOPS_PER_S = (2e12, 4e12, 8e12)
_STARTS = tuple((flops_per_s, 0.7, 1e-3) for flops_per_s in _FLOPS_PER_S)


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


def reductions(costs: LayerCosts, names: Sequence[str] = _SCHEDULERS) -> dict[Figure, float]:
    """Reductions of time against the sequential schedule, in percent, of each phase."""
    before = times_s(costs, "sequential")
    found = {}
    for name in names:
        after = times_s(costs, name)
        for phase in _PHASES:
            found[phase, name] = 100 * (1 - after[phase] / before[phase])
    return found


def times_s(costs: LayerCosts, scheduler: str) -> dict[str, float]:
    """Seconds of each phase under a scheduler's plan."""
    plan = schedulers.get(scheduler)(costs)
    forward_s = makespan.forward_s(costs, [last for _, last in plan.pull])
    backward_s = makespan.backward_s(costs, [last for _, last in plan.push[::-1]])
    return {"forward": forward_s, "backward": backward_s, "iteration": forward_s + backward_s}


def fit_all() -> dict[str, Testbed]:
    """Fits the constants of each model to its reductions at batch size 32, but for iBatch's.

    GoogLeNet has one figure only, so that its ratio and Δt are the geometric means of the others'.
    """
    found = {model: _fit(model, _STARTS) for model in PAPER if model != "googlenet"}
    constants = [dataclasses.astuple(testbed)[1:] for testbed in found.values()]
    _, *shared = np.exp(np.mean(np.log(constants), axis=0)).tolist()
    starts = [(flops_per_s, *shared) for flops_per_s in _FLOPS_PER_S]
    found["googlenet"] = _fit("googlenet", starts, fitted=1)
    return {model: found[model] for model in PAPER}


def _fit(model: str, starts: Iterable[Sequence[float]], fitted: int = 3) -> Testbed:
    """Fits the first `fitted` constants by least squares; the others stay as they start."""
    figures = {key: value for key, value in PAPER[model].items() if key[1] != "ibatch"}
    names = sorted({name for _, name in figures})

    def error(logarithms: np.ndarray) -> float:
        found = reductions(_testbed(model, logarithms).costs(), names)
        return sum((found[key] - value) ** 2 for key, value in figures.items())

    ends = [_descend(error, np.log(start), fitted) for start in starts]
    return _testbed(model, min(ends, key=error))


def _testbed(model: str, logarithms: np.ndarray) -> Testbed:
    return Testbed(model, *np.exp(logarithms).tolist())


def _descend(error: Callable[[np.ndarray], float], start: np.ndarray, fitted: int) -> np.ndarray:
    """Goes downhill along the first `fitted` axes, in ever shorter strides."""
    best, least, stride = start, error(start), 0.4
    axes = np.eye(len(start))[:fitted]
    while stride > 2e-3:
        steps = stride * np.vstack([axes, -axes])
        nearest = min(best + steps, key=error)
        if error(nearest) < least:
            best, least = nearest, error(nearest)
        else:
            stride /= 2
    return best


def report_constants(testbeds: Mapping[str, Testbed]) -> None:
    """Prints what was fitted."""
    print("Constants, fitted once for each model at 10 Gbit/s and batch size 32")
    print(f"  {'':<13}{'operations/s':>13}{'backward/forward':>18}{'overhead':>11}")
    for model, testbed in testbeds.items():
        print(
            f"  {model:<13}{testbed.flops_per_s:>13.3g}{testbed.backward_per_forward:>18.3f}"
            f"{testbed.overhead_s * 1e3:>8.3f} ms"
        )


def report_reductions(testbeds: Mapping[str, Testbed]) -> None:
    """Prints the paper's text figures beside those of the timeline."""
    print("\nReduction against the sequential schedule, in %")
    print(f"  {'':<39}{'paper':>8}{'here':>8}{'difference':>12}")
    for model, testbed in testbeds.items():
        found = reductions(testbed.costs())
        for (phase, scheduler), value in PAPER[model].items():
            here = found[phase, scheduler]
            print(
                f"  {model:<13}{phase:<11}{scheduler:<15}{value:>8.2f}{here:>8.2f}"
                f"{here - value:>+12.2f}"
            )
    print("  iBatch is no part of the fit. For Inception-v4 the paper has it below layer by layer,")
    print("  which this reading of its passes does not show with costs from multiply-adds.")


def report_portions(testbeds: Mapping[str, Testbed]) -> None:
    """Prints the portions of Fig. 5 (forward) and Fig. 6 (backward)."""
    for figure, phase in (("Fig. 5", "forward"), ("Fig. 6", "backward")):
        print(f"\n{figure}, {phase}: time relative to the sequential schedule, in %")
        print(f"  {'':<28}{'computation':>13}{'overlap':>9}{'communication':>15}{'sum':>8}")
        for model, testbed in testbeds.items():
            for scheduler in ("sequential", *_SCHEDULERS):
                shares = _portions(testbed.costs(), phase, scheduler)
                cells = "{:>13.1f}{:>9.1f}{:>15.1f}{:>8.1f}".format(*shares, sum(shares))
                print(f"  {model:<13}{scheduler:<15}{cells}")


def _portions(costs: LayerCosts, phase: str, scheduler: str) -> list[float]:
    whole_s = times_s(costs, "sequential")[phase]
    step = timeline.simulate(costs, schedulers.get(scheduler)(costs))
    portions = dataclasses.astuple(getattr(step, phase).portions)
    return [100 * portion_s / whole_s for portion_s in portions]


def report_other_batch(testbeds: Mapping[str, Testbed], batch_size: int) -> None:
    """Prints reductions of the iteration at a batch size that was not fitted."""
    print(f"\nPredicted: reduction of the iteration at batch size {batch_size}, in %")
    print(f"  {'':<13}" + "".join(f"{name:>16}" for name in _SCHEDULERS))
    for model, testbed in testbeds.items():
        found = paper_predictions.reductions(testbed.costs(batch_size))
        cells = "".join(f"{found[name]:>16.2f}" for name in _SCHEDULERS)
        print(f"  {model:<13}{cells}")


def main() -> None:
    """Fits and prints."""
    testbeds = fit_all()
    report_constants(testbeds)
    report_reductions(testbeds)
    report_portions(testbeds)
    report_other_batch(testbeds, 16)
    for table in paper_predictions.tables(testbeds["resnet152"]):
        print(f"\n{table.markdown()}")
    print(
        "\nThe paper has speed-ups of 7.2 (DynaComm), 6.2 (iBatch) and 5.4 (layer by layer) with "
        "8 workers."
    )


if __name__ == "__main__":
    main()
