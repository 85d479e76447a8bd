"""How long rows of embeddings keep the link busy, layer by layer.

Rows are gathered on the PS tasks, and their gradients sent back, outside of segments; how many they
are is known only when the step runs. Planned or not, they take time on the link. It counts for the
layer that needs the rows first: the lowest whose computation reads them. What is under way at the
same time shares the link equally.

Rows whose shape is known when the step is traced and that are small travel in one pack with other
small tensors, and are not told from those.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tf_dynacomm.profiling import attribution, compute, trace, transfers
from tf_dynacomm.runtime import step_graph


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows that a step moves and their gradients, and the layer that each counts for.

    Attributes:
      pulls: The nodes on PS tasks that make rows.
      pushes: The nodes on the worker that make their gradients.
      gradients: These gradients, by tensor.
    """

    pulls: Mapping[str, int]
    pushes: Mapping[str, int]
    gradients: Mapping[str, int]


def find(graph: step_graph.StepGraph, parts: Mapping[str, attribution.Part]) -> Rows:
    """Finds the rows that a step moves.

    Args:
      graph: The step's graph.
      parts: The part of every node that computes for a layer.
    """
    gathers = {node.name: variable for node, variable in graph.gathers()}
    found = {name: _first_reader(graph, parts, name) for name in gathers}
    pulls = {name: layer for name, layer in found.items() if layer is not None}
    tables: dict[str, int] = {}
    for name, variable in gathers.items():
        if layer := pulls.get(name):
            tables[variable.arg] = min(layer, tables.get(variable.arg, layer))
    layer_of = {
        crossing: tables[variable.arg]
        for crossing in graph.crossings
        if tables and crossing.source.task == step_graph.WORKER and crossing.type.shape != ()
        for variable in _updated(graph, crossing, gathers)
        if variable.arg in tables
    }
    pushes = {crossing.maker: layer for crossing, layer in layer_of.items()}
    return Rows(pulls, pushes, {crossing.tensor: layer for crossing, layer in layer_of.items()})


def _first_reader(graph, parts: Mapping[str, attribution.Part], gather: str) -> int | None:
    """The lowest layer that computes with what a node makes; `None` if none does."""
    layers = [
        parts[name].layer
        for name in _after(graph.readers, [gather])
        if name in parts and parts[name].phase == attribution.FORWARD
    ]
    return min(layers, default=None)


def _updated(graph, crossing, gathers) -> Iterator[step_graph.Variable]:
    """The variables that a PS task changes by a tensor, directly or through their slots."""
    readers = [reader for reader, _ in crossing.readers]
    if any(reader in gathers for reader in readers):
        return  # It says which rows are wanted.
    for name in _after(graph.waiting_beside, readers):
        yield from graph.written_by(graph.nodes[name])


def _after(following: Mapping[str, Sequence[str]], names: Iterable[str]) -> set[str]:
    """Nodes, and all that follow them, directly or not."""
    waiting, found = list(names), set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(following.get(name, ()))
    return found


def pulled(
    worker: trace.StepTrace,
    ps: Iterable[tuple[trace.StepTrace, transfers.ClockOffset]],
    layers: Mapping[str, int],
    names: compute.NameTable,
) -> list[tuple[int, float, float]]:
    """(layer, start, end) of the rows that a worker received, in its clock."""
    return [
        (layers[node], part.sent_s[source] - offset.offset_s, transfer.arrived_s)
        for part, offset in ps
        for source, transfer in worker.transfers.items()
        if (node := names.node(source)) in layers and source in part.sent_s
    ]


def pushed(
    worker: trace.StepTrace,
    ps: Iterable[tuple[trace.StepTrace, transfers.ClockOffset]],
    layers: Mapping[str, int],
    names: compute.NameTable,
) -> list[tuple[int, float, float]]:
    """(layer, start, end) of the rows' gradients that PS tasks received, in the worker's clock."""
    return [
        (layers[node], worker.sent_s[source], transfer.arrived_s - offset.offset_s)
        for part, offset in ps
        for source, transfer in part.transfers.items()
        if (node := names.node(source)) in layers and source in worker.sent_s
    ]


def seconds(
    moved: Sequence[tuple[int, float, float]],
    beside: Sequence[tuple[float, float]],
    num_layers: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of the link that the rows of each layer took, and each thing beside them.

    Args:
      moved: (layer, start, end) of rows.
      beside: (start, end) of what else was under way.
      num_layers: L.

    Returns:
      Arrays of shapes (L,) and (len(beside),).
    """
    if not moved:
        return np.zeros(num_layers), np.array([end_s - start_s for start_s, end_s in beside])
    numbered = enumerate(beside, start=num_layers + 1)
    others = [(number, *span_s) for number, span_s in numbered]
    shares_s = transfers.shares_s([*moved, *others], num_layers + len(beside))
    return shares_s[:num_layers], shares_s[num_layers:]
