"""Timelines as Chrome trace JSON, which https://ui.perfetto.dev opens."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Sequence

from tf_dynacomm import timeline as timeline_lib

_MICROSECONDS = 1e6
_LANES = ("pull", "compute", "push", "apply")


def write(path: str | os.PathLike, timeline: timeline_lib.Timeline) -> None:
    """Writes a timeline as Chrome trace JSON.

    The step is one process; pulls, computation, pushes and the PS's application of gradients are
    its threads. Times are in microseconds from the begin of the step.

    Raises:
      OSError: If the file cannot be written.
    """
    events = [*_lane_names(timeline), *_events(timeline)]
    content = {"traceEvents": events, "displayTimeUnit": "ms"}
    pathlib.Path(path).write_text(json.dumps(content, indent=1), encoding="utf-8")


def _lane_names(timeline: timeline_lib.Timeline) -> Iterator[dict]:
    step = f"step, {timeline.plan.scheduler or 'plan'}"
    yield {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": step}}
    for number, lane in enumerate(_LANES):
        thread = {"ph": "M", "pid": 0, "tid": number}
        yield {**thread, "name": "thread_name", "args": {"name": lane}}
        yield {**thread, "name": "thread_sort_index", "args": {"sort_index": number}}


def _events(timeline: timeline_lib.Timeline) -> Iterator[dict]:
    forward, backward, names = timeline.forward, timeline.backward, timeline.costs.names
    yield from _spans("pull", forward.transfers, names, "pull")
    yield from _spans("forward", forward.computation, names, "compute")
    yield from _spans("backward", backward.computation, names, "compute")
    yield from _spans("push", backward.transfers, names, "push")
    if timeline.costs.apply_s.any():
        yield from _spans("apply", backward.applies, names, "apply")


def _spans(
    kind: str, spans: Sequence[timeline_lib.Span], names: Sequence[str], lane: str
) -> Iterator[dict]:
    for span in spans:
        inner = names[span.first - 1 : span.last]
        layers = inner[0] if len(inner) == 1 else f"{inner[0]} … {inner[-1]}"
        yield {
            "ph": "X",
            "name": f"{kind} {layers}",
            "cat": kind,
            "pid": 0,
            "tid": _LANES.index(lane),
            "ts": span.start_s * _MICROSECONDS,
            "dur": (span.end_s - span.start_s) * _MICROSECONDS,
            "args": {"first_layer": span.first, "last_layer": span.last, "layers": list(inner)},
        }
