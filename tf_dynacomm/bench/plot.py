"""Bar chart of a benchmark in the paper's form: three portions, normalised to sequential."""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Sequence

from tf_dynacomm import files
from tf_dynacomm.bench import contenders, rows

_COLORS = {"computation": "#3a9d6e", "overlap": "#8fc9ac", "communication": "#d9746a"}
_PANELS_ACROSS = 3


def write(path: str | os.PathLike, all_rows: Sequence[rows.Row]) -> None:
    """Draws one panel for each cell.

    Where sequential took no part, times are relative to the slowest contender.

    Args:
      path: File to write: .svg, .png or .pdf.
      all_rows: The rows of one cell or of several.

    Raises:
      ImportError: matplotlib is not installed.
      OSError: The file cannot be written.
      ValueError: There are no rows, or the form of the file is unknown.
    """
    if not all_rows:
        raise ValueError("`all_rows` (empty) must have at least one row.")
    try:
        from matplotlib import figure
    except ImportError as e:
        raise ImportError("to draw takes matplotlib: pip install 'tf_dynacomm[plot]'") from e
    cells = [list(group) for _, group in itertools.groupby(all_rows, _cell)]
    across = min(_PANELS_ACROSS, len(cells))
    down = -(-len(cells) // across)
    picture = figure.Figure(figsize=(1 + 3.4 * across, 0.6 + 3.1 * down), layout="constrained")
    panels = picture.subplots(down, across, squeeze=False).flat
    for panel, cell in itertools.zip_longest(panels, cells):
        if cell is None:
            panel.set_axis_off()
        else:
            _draw(panel, cell)
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, frameon=False, fontsize=8, ncols=4, loc="outside upper center")
    with files.whole(path) as part:
        picture.savefig(part, dpi=150, format=pathlib.Path(path).suffix[1:] or "png")


def _cell(row: rows.Row) -> tuple:
    return row.model, row.rate, row.latency_s, row.workers


def _draw(axes, cell: Sequence[rows.Row]) -> None:
    steps_s = {row.contender: row.median_step_s for row in cell}
    whole_s = steps_s.get(contenders.SEQUENTIAL, max(steps_s.values()))
    for place, row in enumerate(cell):
        bottom = 0.0
        for portion, color in _COLORS.items():
            share = 100 * getattr(row, f"{portion}_s") / whole_s
            axes.bar(place, share, 0.8, bottom, color=color, label=portion if not place else None)
            bottom += share
        axes.text(place, bottom + 1, f"{bottom:.0f}", ha="center", fontsize=7)
    bound = 100 * cell[0].bound_s / whole_s
    axes.axhline(bound, color="#2b2f36", linewidth=0.8, linestyle=":", label="bound")
    axes.set_xticks(range(len(cell)), [row.contender for row in cell], rotation=40, ha="right")
    axes.tick_params(labelsize=7)
    axes.set_ylabel("step [% of sequential]", fontsize=8)
    model, rate, latency_s, workers = _cell(cell[0])
    title = f"{model}\n{rate}, {latency_s * 1e3:g} ms, {workers} worker{'s' * (workers > 1)}"
    axes.set_title(title, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
