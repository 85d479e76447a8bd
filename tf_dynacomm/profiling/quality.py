"""How far a measurement can be trusted, and from where on it is not used."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_dynacomm.profiling import compute, trace

_MIN_MATCHED_SHARE = 0.7
_MIN_CONFIDENCE = 0.3
_UNTOLD = 0.1


@dataclasses.dataclass(frozen=True)
class Spread:
    """How much the steps differ: median absolute deviations from the median.

    Attributes:
      forward_s: Seconds for each layer, forward; shape (L,).
      backward_s: The same, backward.
      step_s: Seconds, of a step's computation as a whole.
    """

    forward_s: np.ndarray
    backward_s: np.ndarray
    step_s: float


def spread(times: Sequence[compute.LayerTimes]) -> Spread:
    """How much the computation of steps differs."""
    totals_s = [t.forward_s.sum() + t.backward_s.sum() for t in times]
    return Spread(
        _deviation([t.forward_s for t in times]),
        _deviation([t.backward_s for t in times]),
        float(_deviation(totals_s)),
    )


def _deviation(values) -> np.ndarray:
    return np.median(np.abs(np.asarray(values) - np.median(values, axis=0)), axis=0)


def confidence(
    matched_share: float, steps: int, step_s: float, deviation_s: float, clock_error_s: float
) -> float:
    """A figure from 0 to 1: the product of four shares, each of which can spoil a measurement.

    * how much of the operations' time was found in the step's graph,
    * n / (n + 1) for n whole steps,
    * how alike the steps are: 1 - deviation / time of a step,
    * how well the hosts' clocks are known: 1 - error / time of a step.

    Args:
      matched_share: The first of them.
      steps: Number of whole steps.
      step_s: Median seconds of a step.
      deviation_s: Median absolute deviation of a step's computation.
      clock_error_s: The most by which the offset of a PS task's clock can be wrong.
    """
    alike, known = (
        max(0.0, 1 - off_s / step_s) if step_s else 1.0 for off_s in (deviation_s, clock_error_s)
    )
    return matched_share * steps / (steps + 1) * alike * known


def told_share(told: int) -> float:
    """What confidence is multiplied by when the trace tells so many of the two links' rates."""
    return 1.0 - _UNTOLD * (2 - told)


def check(host: str, matched_share: float, figure: float) -> None:
    """Refuses a measurement that a plan should not be made from.

    Raises:
      trace.TraceError: If less than 70 % of the operations' time was found in the step's graph, or
        the confidence is below 0.3.
    """
    if matched_share < _MIN_MATCHED_SHARE:
        raise trace.TraceError(
            f"The trace of {host} is of another model, or of operations unknown: only "
            f"{matched_share:.0%} of their time is found in the step's graph "
            f"({_MIN_MATCHED_SHARE:.0%} needed)."
        )
    if figure < _MIN_CONFIDENCE:
        raise trace.TraceError(
            f"The trace of {host} is too uncertain to plan from: its confidence is {figure:.2f} "
            f"({_MIN_CONFIDENCE} needed); too few steps, or steps that differ too much."
        )
