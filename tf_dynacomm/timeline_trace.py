"""Timelines as Chrome trace JSON, which https://ui.perfetto.dev opens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence

from tf_dynacomm import files
from tf_dynacomm import timeline as timeline_lib

_MICROSECONDS = 1e6


def write(
    path: str | os.PathLike, timelines: timeline_lib.Timeline | Mapping[str, timeline_lib.Timeline]
) -> None:
    """Writes steps as Chrome trace JSON.

    Each step is one process; pulls, computation, pushes and the PS's application of gradients are
    its threads. Where several pulls are in flight, each has a thread. Times are in microseconds
    from the begin of the step.

    Args:
      path: File to write.
      timelines: The steps by their titles, or one step.

    Raises:
      OSError: If the file cannot be written.
    """
    if isinstance(timelines, timeline_lib.Timeline):
        timelines = {f"step, {timelines.plan.scheduler or 'plan'}": timelines}
    events = []
    for pid, (title, timeline) in enumerate(timelines.items()):
        process = [*_lane_names(title, timeline), *_events(timeline)]
        events += [{**event, "pid": pid} for event in process]
    content = {"traceEvents": events, "displayTimeUnit": "ms"}
    files.write_text(path, json.dumps(content, indent=1))


def _lanes(timeline: timeline_lib.Timeline) -> list[str]:
    in_flight = min(timeline.plan.credit, len(timeline.plan.pull))
    pulls = ["pull"] if in_flight == 1 else [f"pull {number + 1}" for number in range(in_flight)]
    return [*pulls, "compute", "push", "apply"]


def _lane_names(title: str, timeline: timeline_lib.Timeline) -> Iterator[dict]:
    yield {"ph": "M", "name": "process_name", "args": {"name": title}}
    for number, lane in enumerate(_lanes(timeline)):
        thread = {"ph": "M", "tid": number}
        yield {**thread, "name": "thread_name", "args": {"name": lane}}
        yield {**thread, "name": "thread_sort_index", "args": {"sort_index": number}}


def _events(timeline: timeline_lib.Timeline) -> Iterator[dict]:
    forward, backward, names = timeline.forward, timeline.backward, timeline.costs.names
    compute, push, apply = range(len(_lanes(timeline)))[-3:]
    for number, pull in enumerate(forward.transfers):
        # Asked for when the segment so many places before it has arrived, it takes that one's lane.
        yield _event("pull", pull, names, number % compute)
    for kind, spans, lane in (
        ("forward", forward.computation, compute),
        ("backward", backward.computation, compute),
        ("push", backward.transfers, push),
        ("apply", backward.applies if timeline.costs.apply_s.any() else (), apply),
    ):
        for span in spans:
            yield _event(kind, span, names, lane)


def _event(kind: str, span: timeline_lib.Span, names: Sequence[str], lane: int) -> dict:
    inner = names[span.first - 1 : span.last]
    layers = inner[0] if len(inner) == 1 else f"{inner[0]} … {inner[-1]}"
    return {
        "ph": "X",
        "name": f"{kind} {layers}",
        "cat": kind,
        "tid": lane,
        "ts": span.start_s * _MICROSECONDS,
        "dur": (span.end_s - span.start_s) * _MICROSECONDS,
        "args": {"first_layer": span.first, "last_layer": span.last, "layers": list(inner)},
    }
