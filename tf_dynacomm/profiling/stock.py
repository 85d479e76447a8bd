"""How long a step's tensors took on the link when nothing is scheduled.

`ParameterServerStrategy` asks for every variable at once and sends every gradient as it is made,
each in its own RPC, and all share the link. So single transfers tell nothing of its rate; all of
them together do: the link moved their bytes while any of them was under way. The overhead is that
of the quickest of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from tf_dynacomm.profiling import compute, trace, transfers
from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph


@dataclasses.dataclass(frozen=True)
class Sent:
    """A tensor that crossed the link.

    Attributes:
      layer: Its layer, from 1.
      size_bytes: Its size.
      start_s: When it was asked for, or began to be sent.
      end_s: When it had arrived.
    """

    layer: int
    size_bytes: int
    start_s: float
    end_s: float


@dataclasses.dataclass(frozen=True)
class Tensors:
    """The tensors that a step moves, (layer, bytes) by the node that makes each."""

    pulls: Mapping[str, tuple[int, int]]
    pushes: Mapping[str, tuple[int, int]]


def tensors(graph: step_graph.StepGraph, layers: Sequence[layers_lib.Layer]) -> Tensors:
    """Finds the tensors that a step moves when nothing is scheduled."""
    pulls, pushes = {}, {}
    for number, layer in enumerate(layers, start=1):
        for pull in layer.pulls:
            pulls[pull.crossings[0].source.name] = (number, pull.size_bytes)
        for push in layer.pushes:
            pushes[push.crossing.maker] = (number, push.size_bytes)
    return Tensors(pulls, pushes)


def pulls(
    worker: trace.StepTrace, moved: Mapping[str, tuple[int, int]], names: compute.NameTable
) -> list[Sent]:
    """What the worker received of a step's tensors."""
    return [
        Sent(*moved[node], transfer.requested_s, transfer.arrived_s)
        for source, transfer in worker.transfers.items()
        if (node := names.node(source)) in moved
    ]


def pushes(
    worker: trace.StepTrace,
    ps: Iterable[tuple[trace.StepTrace, transfers.ClockOffset]],
    moved: Mapping[str, tuple[int, int]],
    names: compute.NameTable,
) -> list[Sent]:
    """What the PS tasks received of a step's tensors, in the worker's clock."""
    return [
        Sent(*moved[node], worker.sent_s[source], transfer.arrived_s - offset.offset_s)
        for part, offset in ps
        for source, transfer in part.transfers.items()
        if (node := names.node(source)) in moved and source in worker.sent_s
    ]


def samples(sent: Sequence[Sent]) -> list[tuple[float, float]]:
    """(bytes, seconds) for a fit of the link: the quickest tensor as empty, and all together."""
    quickest_s = min(s.end_s - s.start_s for s in sent)
    return [(0.0, quickest_s), (float(sum(s.size_bytes for s in sent)), _busy_s(sent))]


def _busy_s(sent: Iterable[Sent]) -> float:
    """Seconds in which any tensor was under way."""
    busy_s, until_s = 0.0, float("-inf")
    for tensor in sorted(sent, key=lambda s: s.start_s):
        busy_s += max(0.0, tensor.end_s - max(tensor.start_s, until_s))
        until_s = max(until_s, tensor.end_s)
    return busy_s
