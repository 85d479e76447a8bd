"""Timelines as a picture: the link above the worker, one step above the other."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from tf_dynacomm import files
from tf_dynacomm import timeline as timeline_lib

_COLORS = {
    "pull": "#3d7cc9",
    "push": "#7a5bb5",
    "forward": "#3a9d6e",
    "backward": "#e0913a",
    "apply": "#9a8f80",
    "overhead": "#d5dae1",
    "wait": "#fbe4e1",
    "waits": "#b8443a",
    "label": "white",
    "text": "#2b2f36",
    "faint": "#8b929c",
}
_WIDTH_INCHES = 11.0
_PANEL_INCHES = 1.55
_BAR = 0.78  # Height of a bar, relative to that of its lane.
_LABEL_POINTS = 7.0
_GAP_POINTS = 0.6  # Between neighbours.
_LETTER = 0.58  # Width of a letter, relative to the font's size.
_LANES = ("link", "worker", "PS")
_SHARE_OF_WIDTH = 0.86  # What axes take of a picture's width.


def write(
    path: str | os.PathLike,
    timelines: Mapping[str, timeline_lib.Timeline],
    against: Mapping[str, str] | None = None,
) -> None:
    """Draws steps one above the other, on the same axis of time.

    Transfers are the upper lane of each, the worker the lower; the overhead Δt of each transfer is
    light, and where the worker waits it is marked.

    Args:
      path: File to write; its suffix tells the format, such as `.svg` or `.png`.
      timelines: The steps by their titles.
      against: For a title, that of the step that savings are told against; else the first one.

    Raises:
      ImportError: If matplotlib is missing.
      OSError: If the file cannot be written.
      ValueError: If there are no timelines, or the suffix is of no known format.
    """
    if not timelines:
        raise ValueError("`timelines` (empty) must have at least one timeline.")
    try:
        from matplotlib import figure
    except ImportError as e:
        raise ImportError("Plots need matplotlib: pip install tf_dynacomm[plot]") from e
    height = _PANEL_INCHES * len(timelines) + 0.75
    picture = figure.Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
    picture.get_layout_engine().set(hspace=0.07)
    panels = picture.subplots(len(timelines), sharex=True, squeeze=False)[:, 0]
    longest_s = max(step.iteration_s for step in timelines.values())
    first = next(iter(timelines))
    scale = _Scale.of(longest_s)
    for panel, (title, step) in zip(panels, timelines.items(), strict=True):
        base = timelines[(against or {}).get(title, first)]
        _Panel(panel, step, scale).draw(title, base.iteration_s)
    _draw_axis(panels[-1], scale)
    _draw_legend(picture, any(step.costs.apply_s.any() for step in timelines.values()))
    with files.whole(path) as part:
        picture.savefig(part, dpi=160, format=pathlib.Path(path).suffix[1:] or "png")


@dataclasses.dataclass(frozen=True)
class _Scale:
    """The axis of time.

    Attributes:
      longest: Its end.
      per_s: How many of its units a second has.
      unit: The unit's name.
    """

    longest: float
    per_s: float
    unit: str

    @classmethod
    def of(cls, longest_s: float) -> _Scale:
        for per_s, unit in ((1, "s"), (1e3, "ms")):
            if longest_s * per_s >= 1:
                return cls(longest_s * per_s, per_s, unit)
        return cls(longest_s * 1e6 or 1.0, 1e6, "µs")

    def text(self, time_s: float) -> str:
        return f"{time_s * self.per_s:.3g} {self.unit}"

    def fits(self, text: str, length: float) -> bool:
        return len(text) * _LETTER * _LABEL_POINTS * self.per_point < length

    @property
    def per_point(self) -> float:
        """How much of the axis a point (1/72 inch) is."""
        return self.longest / (_WIDTH_INCHES * _SHARE_OF_WIDTH * 72)


class _Panel:
    """Draws one step."""

    def __init__(self, axes, step: timeline_lib.Timeline, scale: _Scale):
        self._axes = axes
        self._step = step
        self._scale = scale
        self._lanes = _LANES[: 3 if step.costs.apply_s.any() else 2]

    def draw(self, title: str, base_s: float) -> None:
        step = self._step
        self._draw_waits()
        in_flight = min(step.plan.credit, len(step.plan.pull))
        self._draw_transfers("pull", step.forward.transfers, step.costs.overhead_pull_s, in_flight)
        self._draw_transfers("push", step.backward.transfers, step.costs.overhead_push_s, 1)
        self._draw_computation("forward", step.forward.computation)
        self._draw_computation("backward", step.backward.computation)
        if "PS" in self._lanes:
            for span in step.backward.applies:
                self._draw_bar("PS", "apply", span)
        self._draw_end()
        self._draw_title(title, base_s)
        self._draw_frame()

    def _draw_transfers(
        self, kind: str, spans: Sequence[timeline_lib.Span], overhead_s: float, in_flight: int
    ) -> None:
        """Draws transfers; of several in flight each has a part of the lane's height."""
        for number, span in enumerate(spans):
            row = (number % in_flight, in_flight)
            overhead_end_s = min(span.start_s + overhead_s, span.end_s)
            overhead = dataclasses.replace(span, end_s=overhead_end_s)
            layers = f"{span.first}" if span.first == span.last else f"{span.first}-{span.last}"
            self._draw_bar("link", "overhead", overhead, row)
            rest = dataclasses.replace(span, start_s=overhead_end_s)
            self._draw_bar("link", kind, rest, row)
            self._label("link", kind, rest, layers, row)

    def _draw_computation(self, kind: str, layers: Sequence[timeline_lib.Span]) -> None:
        """Draws layers with their names; where none has room, the first and the last of a run."""
        for layer in layers:
            self._draw_bar("worker", kind, layer)
        names = self._step.costs.names
        for run in _runs(layers):
            labelled = [self._label("worker", kind, span, names[span.first - 1]) for span in run]
            if not any(labelled):
                whole = dataclasses.replace(run[0], end_s=run[-1].end_s)
                text = f"{names[run[0].first - 1]} … {names[run[-1].first - 1]}"
                self._label("worker", kind, whole, text)

    def _label(
        self,
        lane: str,
        kind: str,
        span: timeline_lib.Span,
        text: str,
        row: tuple[int, int] = (0, 1),
    ) -> bool:
        """Writes into a bar, if there is room."""
        start, length = self._place(span)
        fits = self._scale.fits(text, length)
        if fits:
            self._axes.text(
                start + length / 2,
                self._middle(lane, row),
                text,
                color=_COLORS["waits" if kind == "wait" else "label"],
                fontsize=_LABEL_POINTS,
                ha="center",
                va="center_baseline",
                # Over the edges of layers, but not beyond a row that is hardly higher than text.
                bbox={"facecolor": _COLORS[kind], "linewidth": 0, "pad": 0.8}
                if row[1] == 1
                else None,
            )
        return fits

    def _draw_bar(
        self, lane: str, kind: str, span: timeline_lib.Span, row: tuple[int, int] = (0, 1)
    ) -> None:
        start, length = self._place(span)
        if self._scale.fits("i", length):  # A narrow bar would vanish in the gap.
            length -= _GAP_POINTS * self._scale.per_point
        self._axes.barh(
            self._middle(lane, row), length, _BAR / row[1], start, color=_COLORS[kind], linewidth=0
        )

    def _middle(self, lane: str, row: tuple[int, int]) -> float:
        """Height of the middle of a row (number, of how many) of a lane."""
        number, count = row
        return self._lanes.index(lane) + _BAR * ((number + 0.5) / count - 0.5)

    def _draw_waits(self) -> None:
        step = self._step
        end_s = step.iteration_s if step.backward.computation else step.forward_s
        edges = [timeline_lib.Span(0, 0, 1, 1)]
        edges += [*step.forward.computation, *step.backward.computation]
        edges.append(timeline_lib.Span(end_s, end_s, 1, 1))
        for before, after in itertools.pairwise(edges):
            wait = timeline_lib.Span(before.end_s, after.start_s, 1, 1)
            self._draw_bar("worker", "wait", wait)
            text = f"waits {self._scale.text(wait.end_s - wait.start_s)}"
            self._label("worker", "wait", wait, text)

    def _draw_end(self) -> None:
        for time_s, style in ((self._step.forward_s, ":"), (self._step.iteration_s, "-")):
            time = time_s * self._scale.per_s
            self._axes.axvline(time, color=_COLORS["text"], linewidth=0.9, linestyle=style)

    def _draw_title(self, title: str, base_s: float) -> None:
        step = self._step
        saved = 1 - step.iteration_s / base_s if base_s else 0
        parts = [self._scale.text(step.iteration_s)]
        if saved:
            parts.append(f"{-saved:+.1%}")
        parts.append(f"{_count(step.plan.pull, 'pull')}, {_count(step.plan.push, 'push')}")
        style = {"fontsize": 9.5, "color": _COLORS["text"], "pad": 4}
        self._axes.set_title(title, loc="left", fontweight="bold", **style)
        self._axes.set_title("   ".join(parts), loc="right", **style)

    def _draw_frame(self) -> None:
        self._axes.set_yticks(range(len(self._lanes)), self._lanes, fontsize=8.5)
        self._axes.set_ylim(len(self._lanes) - 0.5, -0.5)
        self._axes.set_xlim(0, self._scale.longest * 1.005)
        self._axes.tick_params(length=0, labelcolor=_COLORS["text"])
        for side in ("top", "right", "left", "bottom"):
            self._axes.spines[side].set_visible(False)

    def _place(self, span: timeline_lib.Span) -> tuple[float, float]:
        return span.start_s * self._scale.per_s, (span.end_s - span.start_s) * self._scale.per_s


def _runs(spans: Sequence[timeline_lib.Span]) -> Iterator[list[timeline_lib.Span]]:
    """Spans that follow each other without a wait."""
    run: list[timeline_lib.Span] = []
    for span in spans:
        if run and span.start_s > run[-1].end_s:
            yield run
            run = []
        run.append(span)
    if run:
        yield run


def _count(segments: Sequence, what: str) -> str:
    plural = "" if len(segments) == 1 else "es" if what.endswith("sh") else "s"
    return f"{len(segments)} {what}{plural}"


def _draw_axis(axes, scale: _Scale) -> None:
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set_color(_COLORS["faint"])
    axes.tick_params(axis="x", length=3, color=_COLORS["faint"], labelsize=8)
    axes.set_xlabel(f"time in the step [{scale.unit}]", fontsize=8.5, color=_COLORS["text"])


def _draw_legend(picture, with_apply: bool) -> None:
    from matplotlib import patches

    labels = {
        "pull": "pull",
        "push": "push",
        "overhead": "overhead Δt",
        "forward": "forward",
        "backward": "backward",
        "wait": "worker waits",
        "apply": "PS applies",
    }
    if not with_apply:
        del labels["apply"]
    handles = [patches.Patch(color=_COLORS[kind], label=label) for kind, label in labels.items()]
    picture.legend(
        handles=handles,
        loc="outside upper right",
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        handlelength=1.1,
        columnspacing=1.4,
    )
