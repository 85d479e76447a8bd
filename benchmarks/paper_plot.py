"""The paper's figures as a picture: portions of both phases, and what is predicted beyond."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from benchmarks import paper_predictions

_PORTIONS = {"computation": "#3a9d6e", "overlap": "#8fc9ac", "communication": "#d9746a"}
_NAMES = {
    "sequential": "sequential",
    "layer_by_layer": "layer by layer",
    "ibatch": "iBatch",
    "dynacomm": "DynaComm",
}
_COLORS = {"layer_by_layer": "#8b929c", "ibatch": "#e0913a", "dynacomm": "#3d7cc9"}
_GAP = 1.0  # Between models, in widths of a bar.

Shares = Mapping[str, Mapping[str, Sequence[float]]]
"""Portions in percent, by model and scheduler."""


def write(
    path: str | os.PathLike, shares: Mapping[str, Shares], testbed: paper_predictions.Testbed
) -> None:
    """Draws portions of all models, and the predictions for ResNet-152.

    Args:
      path: File to write.
      shares: Portions of "forward" and of "backward".
      testbed: That of ResNet-152.

    Raises:
      OSError: If the file cannot be written.
    """
    from matplotlib import figure

    picture = figure.Figure(figsize=(11, 8), layout="constrained")
    (forward, backward), (batch, rate) = picture.subplots(2, 2)
    for axes, phase in ((forward, "forward"), (backward, "backward")):
        _draw_portions(axes, phase, shares[phase])
    forward.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1.01))
    _draw_lines(batch, paper_predictions.by_batch_size(testbed), "batch size, at 10 Gbit/s")
    _draw_lines(rate, paper_predictions.by_rate(testbed), "Gbit/s, at batch size 32")
    batch.legend(frameon=False, fontsize=8)
    picture.savefig(path, dpi=160)


def _draw_portions(axes, phase: str, shares: Shares) -> None:
    """Draws stacked bars, relative to the sequential schedule's time."""
    ticks = {}
    for group, (model, of_schedulers) in enumerate(shares.items()):
        for number, (scheduler, label) in enumerate(_NAMES.items()):
            place = group * (len(_NAMES) + _GAP) + number
            ticks[place] = label
            bottom = 0.0
            portions = zip(_PORTIONS.items(), of_schedulers[scheduler], strict=True)
            for (portion, color), share in portions:
                first = portion if place == 0 else None
                axes.bar(place, share, 0.85, bottom, color=color, label=first)
                bottom += share
            axes.text(place, bottom + 1, f"{bottom:.0f}", ha="center", fontsize=6.5)
        middle = group * (len(_NAMES) + _GAP) + (len(_NAMES) - 1) / 2
        axes.text(middle, 119, model, ha="center", fontsize=8.5, fontweight="bold")
    axes.set_xticks(list(ticks), list(ticks.values()), rotation=90, fontsize=7)
    axes.set_ylim(0, 126)
    axes.set_ylabel(f"{phase}: time [% of sequential]", fontsize=8.5)
    _bare(axes)


def _draw_lines(axes, rows: Mapping[float, Mapping[str, float]], what: str) -> None:
    """Draws the reduction of the iteration against what was varied."""
    for scheduler, color in _COLORS.items():
        reductions = [numbers[scheduler] for numbers in rows.values()]
        axes.plot(list(rows), reductions, marker="o", color=color, label=_NAMES[scheduler])
    axes.axhline(0, color="#2b2f36", linewidth=0.8)
    axes.set_xlabel(what, fontsize=8.5)
    axes.set_ylabel("ResNet-152: iteration saved [%]", fontsize=8.5)
    axes.grid(alpha=0.25)
    _bare(axes)


def _bare(axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
