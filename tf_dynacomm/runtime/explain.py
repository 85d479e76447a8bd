"""Tells what a plan does with each variable of a step, and why some are in no segment."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.runtime import (
    coupling,
    layers,
    reassociation,
    rewrite,
    step_function,
    step_graph,
)

_RUN_FUNCTIONS = frozenset(
    (
        *("Case", "If", "StatelessIf", "While", "StatelessWhile"),
        *("PartitionedCall", "StatefulPartitionedCall"),
    )
)
_CHIEF = "chief"
_STAYS = "stays on the PS: the worker does not read it"
_HEADER = ("variable", "layer", "bytes", "task", "pull", "push", "")


@dataclasses.dataclass(frozen=True)
class Entry:
    """What becomes of one variable.

    Attributes:
      variable: Its name.
      layer: Its layer, or `""`.
      size_bytes: Bytes that one pull moves; `None` if that is not known before the step runs.
      task: `"ps:<task>"`, or `"chief"`.
      pull: Number of the pull segment that carries it, from 1, or `None`.
      push: Number of the push segment that carries its gradient, from 1, or `None`.
      note: Why it is in no segment, or what else is to be said.
    """

    variable: str
    layer: str
    size_bytes: int | None
    task: str
    pull: int | None
    push: int | None
    note: str


def explain(function: step_function.StepFunction, plan: plan_lib.Plan | None) -> str:
    """A table of a step's variables, the bytes of each segment and PS task, and what is special.

    Args:
      function: The step.
      plan: The plan in force; `None` if the step runs as traced.
    """
    found = entries(function, plan)
    listed = [e for e in found if e.note != _STAYS]
    parts = [_table([_HEADER, *(_cells(e) for e in listed)])]
    if len(listed) < len(found):
        parts.append(
            f"{len(found) - len(listed)} variables more stay on the PS, where optimizers and "
            "metrics use them."
        )
    if plan is None:
        parts.append("The step runs as traced: stock's transfers, in no order.")
    elif function.layers:
        parts.append(_segments("pull", [x.pulls for x in function.layers], plan.pull))
        parts.append(_segments("push", [x.pushes for x in function.layers], plan.push))
    if coupling.gradients_wait_for_all(function.graph, function.layers):
        parts.append(
            "Each gradient waits for all the others (clipping by their global norm does that), so "
            "that pushes cannot overlap the backward pass: one push segment is best."
        )
    return "\n\n".join(part for part in parts if part)


def entries(function: step_function.StepFunction, plan: plan_lib.Plan | None) -> list[Entry]:
    """What becomes of each variable, in the order of the layers; then those in no layer."""
    graph, table = function.graph, function.layers
    pull = _numbers(plan.pull if plan else (), len(table))
    push = _numbers(plan.push if plan else (), len(table))
    found = {
        moved.variable.arg: Entry(
            moved.variable.name,
            layer.name,
            moved.size_bytes,
            _task(moved.variable),
            pull[index],
            push[index] if moved.variable in {p.variable for p in layer.pushes} else None,
            _moved_note(graph, layer, moved),
        )
        for index, layer in enumerate(table)
        for moved in layer.pulls
    }
    users = _users(graph)
    gathered = {variable.arg for _, variable in graph.gathers()}
    for arg, variable in graph.variables.items():
        if arg not in found:
            size_bytes, note = _unmoved(graph, variable, users[arg], arg in gathered)
            found[arg] = Entry(variable.name, "", size_bytes, _task(variable), None, None, note)
    return list(found.values())


def _numbers(segments: Iterable[plan_lib.Segment], num_layers: int) -> list[int | None]:
    """The segment number of each layer."""
    numbers: list[int | None] = [None] * num_layers
    for number, (first, last) in enumerate(segments, start=1):
        numbers[first - 1 : last] = [number] * (last - first + 1)
    return numbers


def _users(graph: step_graph.StepGraph) -> dict[str, list[step_graph.Node]]:
    """The nodes that use each variable and that run."""
    users = collections.defaultdict(list)
    for node in graph.nodes.values():
        for arg in set(node.inputs) & graph.variables.keys():
            if node.name in graph.live:
                users[arg].append(node)
    return users


def _task(variable: step_graph.Variable) -> str:
    task = step_graph.task_of(variable.device)
    return _CHIEF if task == step_graph.WORKER else task


def _moved_note(graph: step_graph.StepGraph, layer: layers.Layer, pull: layers.Pull) -> str:
    """What is to be said of a variable that a segment carries."""
    notes = []
    if pull.type.dtype != pull.crossings[0].type.dtype:
        notes.append(f"sent as {pull.type.dtype}")
    if pull.size_bytes > rewrite.MAX_PACK_BYTES:
        notes.append("larger than a pack, goes alone")
    if reassociation.meets_a_constant(graph, pull):
        notes.append("goes alone, so that a constant is added to it (or multiplied) as in stock")
    if pull.variable not in {p.variable for p in layer.pushes}:
        notes.append(_unpushed_note(graph, pull.variable))
    return "; ".join(notes)


def _unpushed_note(graph: step_graph.StepGraph, variable: step_graph.Variable) -> str:
    """Why no push segment carries anything for a variable that is pulled."""
    if not any(variable in graph.written_by(node) for node in graph.nodes.values()):
        return "not updated"
    if variable.trainable:
        return "its gradient travels as in stock: of unknown size, or one of several"
    return "not trained: its updates travel with other small tensors"


def _unmoved(
    graph: step_graph.StepGraph,
    variable: step_graph.Variable,
    users: Sequence[step_graph.Node],
    gathered: bool,
) -> tuple[int | None, str]:
    """Bytes that travel for a variable that no segment carries, and why none does."""
    ops = {user.op for user in users}
    if _task(variable) == _CHIEF:
        return None, "lives on the chief: make it inside `strategy.scope()`"
    if gathered:
        return None, f"rows{_row_bytes(variable)} are gathered on the PS and travel as in stock"
    if ops & _RUN_FUNCTIONS:
        return None, "read within a condition or a loop, as in stock"
    names = {user.name for user in users}
    reads = [c for c in graph.crossings if c.source.name in names]
    if not reads:
        return 0, _STAYS
    if not all(c.type.is_packable for c in reads):
        return None, "its size is not known before it is sent, as in stock"
    size_bytes = sum(c.type.size_bytes for c in reads)
    if all(c.source.controls for c in reads):
        return size_bytes, "read after a write of the same step, as in stock"
    return size_bytes, "belongs to no layer: meets no data, or another task reads it"


def _row_bytes(variable: step_graph.Variable) -> str:
    """Bytes of a table's row, in words."""
    type_ = variable.type
    if type_ is None or not type_.is_packable or not type_.shape:
        return ""
    return f" of {type_.size_bytes // max(type_.shape[0], 1):,} bytes"


def _cells(entry: Entry) -> tuple[str, ...]:
    size = "" if entry.size_bytes is None else f"{entry.size_bytes:,}"
    pull, push = ("" if n is None else str(n) for n in (entry.pull, entry.push))
    return entry.variable, entry.layer, size, entry.task, pull, push, entry.note


def _segments(
    way: str,
    table: Sequence[Sequence[layers.Pull | layers.Push]],
    segments: Sequence[plan_lib.Segment],
) -> str:
    """A table of the bytes of each segment, in all and for each PS task.

    A segment takes as long as its slowest task does.
    """
    moved = [[(m.size_bytes, _task(m.variable)) for m in layer] for layer in table]
    tasks = sorted({task for layer in moved for _, task in layer})
    rows = [
        (str(number), f"{first}-{last}", *_sums(moved[first - 1 : last], tasks))
        for number, (first, last) in enumerate(segments, start=1)
    ]
    head = (f"{way} segment", "layers", "bytes", *tasks)
    return _table([head, *rows, ("all", f"1-{len(table)}", *_sums(moved, tasks))])


def _sums(moved: Sequence[Sequence[tuple[int, str]]], tasks: Sequence[str]) -> list[str]:
    """Bytes of some layers, in all and for each task."""
    sizes = collections.Counter()
    for layer in moved:
        for size_bytes, task in layer:
            sizes[task] += size_bytes
    return [f"{size:,}" for size in (sizes.total(), *(sizes[t] for t in tasks))]


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Lays rows out in columns; numbers stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
