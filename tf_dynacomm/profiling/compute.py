"""Compute time of each layer, from the operations that a worker's trace holds.

Operations of a step run on several threads. What counts is the wall time of the critical lane, not
the sum over the threads: a moment counts for the earliest part of the step (forward 1..L, then
backward L..1) that computes in it, since that part is the one that what follows waits for. So time
on parallel threads is counted once, and the layers' times add up to the time in which the worker
computed. Pauses between operations are the executor's and count for the operation that follows, if
its layer's parameters were there when the pause began, or if it is shorter than `_DISPATCH_S`.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tf_dynacomm.profiling import attribution, trace
from tf_dynacomm.runtime import step_graph

_DISPATCH_S = 100e-6


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Time in which the worker computed for one part of the step.

    Attributes:
      start_s: Its begin.
      end_s: Its end.
      rank: The part's place in the step: forward 1..L, then backward L..1, from 0.
    """

    start_s: float
    end_s: float
    rank: int


@dataclasses.dataclass(frozen=True)
class LayerTimes:
    """Compute time of one step.

    Attributes:
      forward_s: Seconds for each layer, forward; shape (L,).
      backward_s: The same, backward.
      matched_s: Seconds of operations that were found in the traced graph.
      total_s: Seconds of all operations of the step.
      pieces: When the worker computed for which part, in order.
    """

    forward_s: np.ndarray
    backward_s: np.ndarray
    matched_s: float
    total_s: float
    pieces: tuple[Piece, ...] = ()


class NameTable:
    """Maps the names in a trace to nodes of the step's graph.

    Grappler rewrites names: it puts its own before them (`ArithmeticOptimizer/…`), and the bodies
    of inlined functions carry the calling node's name before theirs.

    Args:
      graph: The step's graph.
    """

    def __init__(self, graph: step_graph.StepGraph):
        self._graph = graph
        self._found: dict[str, str | None] = {}

    def node(self, name: str) -> str | None:
        """The graph's node for a traced name, or `None`."""
        if name not in self._found:
            self._found[name] = next((n for n in _candidates(name) if n in self._graph.nodes), None)
        return self._found[name]


def _candidates(name: str) -> Iterable[str]:
    parts = name.split("/")
    yield from ("/".join(parts[i:]) for i in range(len(parts)))
    yield from ("/".join(parts[:i]) for i in range(len(parts) - 1, 0, -1))


def layer_times(
    operations: Sequence[trace.Operation],
    names: NameTable,
    parts: Mapping[str, attribution.Part],
    num_layers: int,
    arrived_s: np.ndarray | None = None,
) -> LayerTimes:
    """Adds up a step's operations by layer.

    An operation that the graph does not have counts for the part of the one before it; packing and
    unpacking, which move data, count for none.

    Args:
      operations: The worker's operations of one step, in order of start.
      names: Finds the node of an operation.
      parts: The part of every node that computes for a layer.
      num_layers: L.
      arrived_s: When each layer's parameters had arrived, if known; shape (L,).
    """
    ranked, matched_s, total_s, last = [], 0.0, 0.0, None
    for operation in operations:
        duration_s = operation.end_s - operation.start_s
        node = names.node(operation.node)
        total_s += duration_s
        packs = "dynacomm/" in operation.node
        if node is not None or packs:
            matched_s += duration_s
        if packs:
            continue
        part = last if node is None else parts.get(node)
        last = part or last
        if part is not None:
            ranked.append((operation.start_s, operation.end_s, _rank(part, num_layers)))
    pieces = first_come(ranked, None if arrived_s is None else ready_s(arrived_s))
    seconds = seconds_of(pieces, 2 * num_layers)
    return LayerTimes(seconds[:num_layers], seconds[num_layers:][::-1], matched_s, total_s, pieces)


def _rank(part: attribution.Part, num_layers: int) -> int:
    """The part's place in the step: forward 1..L, then backward L..1, from 0."""
    if part.phase == attribution.FORWARD:
        return part.layer - 1
    return 2 * num_layers - part.layer


def ready_s(arrived_s: np.ndarray) -> np.ndarray:
    """From when on each part could compute; shape (2 L,). Backward nothing has to arrive."""
    return np.concatenate([arrived_s, np.full_like(arrived_s, -np.inf)])


def first_come(
    intervals: Sequence[tuple[float, float, int]], ready_s: Sequence[float] | None = None
) -> tuple[Piece, ...]:
    """Cuts time into pieces, every moment given to the lowest rank that is active in it.

    Args:
      intervals: (start, end, rank) of what is active, in seconds.
      ready_s: From when on nothing but the executor kept each rank from being active, if known.
    """
    pieces: list[Piece] = []
    edges = sorted({t for start, end, _ in intervals for t in (start, end)})
    waiting = sorted(intervals)
    active: list[tuple[int, float]] = []
    position = 0
    for now, then in itertools.pairwise(edges):
        while position < len(waiting) and waiting[position][0] <= now:
            heapq.heappush(active, (waiting[position][2], waiting[position][1]))
            position += 1
        while active and active[0][1] <= now:
            heapq.heappop(active)
        if active:
            _extend(pieces, now, then, active[0][0])
        elif then - now < _DISPATCH_S or _is_ready(waiting[position][2], now, ready_s):
            _extend(pieces, now, then, waiting[position][2])
    return tuple(pieces)


def _is_ready(rank: int, now_s: float, ready_s: Sequence[float] | None) -> bool:
    return ready_s is not None and ready_s[rank] <= now_s


def _extend(pieces: list[Piece], start_s: float, end_s: float, rank: int) -> None:
    """Adds time to a rank: to the latest piece if it is that one's and goes on."""
    if pieces and pieces[-1].rank == rank and pieces[-1].end_s == start_s:
        start_s = pieces.pop().start_s
    pieces.append(Piece(start_s, end_s, rank))


def seconds_of(pieces: Iterable[Piece], ranks: int) -> np.ndarray:
    """Adds up pieces by rank; shape (ranks,)."""
    seconds = np.zeros(ranks)
    for piece in pieces:
        seconds[piece.rank] += piece.end_s - piece.start_s
    return seconds
