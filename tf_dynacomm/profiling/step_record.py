"""The traced step beside its trace: `<run>/dynacomm.json`, from which the trace can be read later.

It holds the step's graph (what runs where, and what reads what), the tasks' addresses, and the plan
that each worker followed while the trace was taken.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from absl import logging
from tensorflow.core.framework import function_pb2

from tf_dynacomm import files
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.runtime import layers as layers_lib
from tf_dynacomm.runtime import step_graph

NAME = "dynacomm.json"
_KIND, _VERSION = "step", 1
_UNKNOWN = step_graph.TensorType("unknown", None, 0)


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """A step that was traced.

    Attributes:
      graph: Its placed graph.
      layers: Its layer table.
      plans: The plan of each worker, by index; `None` for the step as traced.
    """

    graph: step_graph.StepGraph
    layers: tuple[layers_lib.Layer, ...]
    plans: Mapping[int, plan_lib.Plan | None]


def save(
    folder: pathlib.Path,
    graph: step_graph.StepGraph,
    plans: Mapping[int, plan_lib.Plan | None],
) -> None:
    """Writes the record of a step into a run's folder, or warns that it cannot be written.

    Args:
      folder: The folder, as `capture.Capture.folder` tells.
      graph: The step's placed graph.
      plans: The plan that each worker followed, by index; `None` for the step as traced.
    """
    try:
        files.write(folder / NAME, _KIND, _VERSION, _content(graph, plans))
    except OSError as e:
        logging.warning("The step was not saved in %s: %s.", folder, e.strerror)


def load(folder: pathlib.Path) -> StepRecord | None:
    """Reads the record in a run's folder; `None` if there is none.

    Raises:
      OSError: If it cannot be read.
      ValueError: If it is no such record; the message names the file.
    """
    path = folder / NAME
    if not path.exists():
        return None
    if not path.is_file():
        raise ValueError(f"{path}: not a file.")  # To open a pipe would be to wait.
    content = files.read(path, _KIND, _VERSION)
    with files.malformed(f"{path}: no valid record of a step"):
        graph = _graph(content)
        layers = layers_lib.layer_table(graph)
        plans = {int(w): _plan(p, len(layers)) for w, p in content["plans"].items()}
        return StepRecord(graph, layers, plans)


def _content(graph: step_graph.StepGraph, plans: Mapping[int, plan_lib.Plan | None]) -> dict:
    devices = list(dict.fromkeys(node.device for node in graph.nodes.values()))
    types = {c.tensor: c.type for c in graph.crossings}
    types |= {tensor: graph.type_of(tensor) for tensor in _cast(graph)}
    return {
        "plans": {str(w): plan and dataclasses.asdict(plan) for w, plan in plans.items()},
        "variables": [dataclasses.astuple(v) for v in graph.variables.values()],
        "types": {tensor: dataclasses.astuple(kind) for tensor, kind in types.items()},
        "results": graph.results,
        "pruned": [name for name in graph.nodes if name not in graph.live],
        "devices": devices,
        # One line each: a JSON list of every input would be several times as long.
        "nodes": [_line(node, devices.index(node.device)) for node in graph.nodes.values()],
    }


def _cast(graph: step_graph.StepGraph) -> Iterator[str]:
    """The tensors around casts, whose types tell what travels."""
    for node in graph.nodes.values():
        if node.op == "Cast":
            yield f"{node.name}:y:0"
            yield from (tensor for tensor in node.inputs if ":" in tensor)


def _line(node: step_graph.Node, device: int) -> str:
    controls = (f"^{control}" for control in node.controls)
    return " ".join((node.name, node.op, str(device), *node.inputs, *controls))


def _graph(content: Mapping) -> step_graph.StepGraph:
    variables = {arg: _variable(arg, *rest) for arg, *rest in content["variables"]}
    types = {tensor: _type(*kind) for tensor, kind in content["types"].items()}
    definition = function_pb2.FunctionDef(ret={t: t for t in content["results"]})
    pruned = set(content["pruned"])
    for line in content["nodes"]:
        name, op, device, *inputs = line.split(" ")
        device = content["devices"][int(device)]
        node = definition.node_def.add(name=name, op=op, device=device, input=inputs)
        if name not in pruned:
            definition.control_ret[name] = name
        if any(i in variables for i in inputs) and step_graph.task_of(device) == step_graph.WORKER:
            node.attr["body"].func.name = op  # What runs functions stays where it was placed.
    return step_graph.StepGraph(definition, variables, lambda tensor: types.get(tensor, _UNKNOWN))


def _variable(
    arg: str, name: str, trainable: bool, device: str, kind: Sequence | None = None
) -> step_graph.Variable:
    if [type(value) for value in (arg, name, trainable, device)] != [str, str, bool, str]:
        raise ValueError(f"variable ({arg!r}) must have a name, be trained or not, and be placed.")
    return step_graph.Variable(arg, name, trainable, device, kind and _type(*kind))


def _type(dtype: str, shape: Sequence[int] | None, item_bytes: int) -> step_graph.TensorType:
    numbers = [item_bytes, *(shape or ())]
    if type(dtype) is not str or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError(f"tensor type ({dtype!r}, {shape!r}, {item_bytes!r}) must have a shape.")
    return step_graph.TensorType(dtype, None if shape is None else tuple(shape), item_bytes)


def _plan(content: Mapping | None, num_layers: int) -> plan_lib.Plan | None:
    plan = None if content is None else plan_lib.Plan(**content)
    if plan is not None and plan.num_layers != num_layers:
        raise plan_lib.PlanMismatchError(
            f"the plan is for {plan.num_layers} layers, the step has {num_layers}."
        )
    return plan
