"""How long the PS tasks took to apply each layer's gradients, from their traces.

It counts as the worker's computation does (see `compute`): the wall time of the operations that
need a layer's gradients, from unpacking them to the update of the last variable. An operation that
needs several layers' gradients, such as a norm over all of them, belongs to the one that comes
last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.profiling import compute, trace
from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph

_UNPACKING = re.compile(r"(?:.*/)?dynacomm/push_(\d+)/")


def layers_applied(
    graph: step_graph.StepGraph, layers: Sequence[layers_lib.Layer]
) -> dict[str, int]:
    """For each operation on a PS task that needs gradients, the layer whose come last to it."""
    applied: dict[str, int] = {}
    for number, layer in enumerate(layers, start=1):
        for push in layer.pushes:
            for reader, _ in push.crossing.readers:
                applied.setdefault(reader, number)
    for node in graph.topological:
        if node.task == step_graph.WORKER:
            continue
        before = [applied[s.name] for s in graph.sources(node) if s.name in applied]
        if before:
            applied[node.name] = min(*before, applied.get(node.name, len(layers)))
    return applied


def pieces(
    step: trace.StepTrace,
    names: compute.NameTable,
    applied: Mapping[str, int],
    plan: plan_lib.Plan | None,
    num_layers: int,
) -> tuple[compute.Piece, ...]:
    """When a PS task worked on which layer's gradients; the layer L has rank 0, the first L - 1.

    Args:
      step: The PS task's part of the step.
      names: Finds the node of an operation.
      applied: The layer of every node that applies gradients.
      plan: The plan in force; `None` as stock.
      num_layers: L.
    """
    ranked = []
    for operation in step.operations:
        layer = _unpacked(operation.node, plan) or applied.get(names.node(operation.node))
        if layer is not None:
            ranked.append((operation.start_s, operation.end_s, num_layers - layer))
    return compute.first_come(ranked)


def _unpacked(node: str, plan: plan_lib.Plan | None) -> int | None:
    """The layer of a segment that is applied first, if the node unpacks a segment."""
    match = _UNPACKING.match(node)
    if plan is None or match is None or int(match[1]) > len(plan.push):
        return None
    return plan.push[int(match[1]) - 1][1]
