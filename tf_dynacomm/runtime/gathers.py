"""Lets the rows of a large table be gathered where the table is, so that it need not travel.

tf_keras's `Embedding` asks the parameter server for the rows that it needs. Keras 3's reads the
whole table and gathers on the worker; the same gathering, placed on the parameter server, gives the
same rows.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping

from tf_dynacomm.runtime import step_graph

# A small table travels in its segment: the rows for one batch may well be more.
_SMALL_BYTES = 1 << 20


def gather_beside_tables(definition, variables: Mapping[str, step_graph.Variable]):
    """Places gatherings beside the variables that they gather from.

    A variable counts if all that reads it are gatherings, and it is not small.

    Args:
      definition: A step's `FunctionDef`; it is not changed.
      variables: The step's variables, by argument name.

    Returns:
      The definition, or a copy of it with other devices.
    """
    readers = collections.defaultdict(list)
    for node in definition.node_def:
        for tensor in node.input:
            readers[step_graph.producer(tensor)].append(node)
    nodes = {node.name: node for node in definition.node_def}
    ends = {step_graph.producer(tensor) for tensor in definition.ret.values()}
    devices = {}
    for read in definition.node_def:
        table = variables.get(read.input[0]) if read.op == "ReadVariableOp" else None
        if table is None or read.name in ends or not _is_large(table):
            continue
        if all(_gathers_from(reader, read.name) for reader in readers[read.name]):
            for gather in readers[read.name]:
                axis = nodes[step_graph.producer(gather.input[2])]
                alone = axis.op == "Const" and len(readers[axis.name]) == 1
                devices.update(dict.fromkeys([gather.name, *[axis.name] * alone], table.device))
    return _with_devices(definition, devices)


def _is_large(table: step_graph.Variable) -> bool:
    return table.type is not None and table.type.size_bytes > _SMALL_BYTES


def _gathers_from(node, read: str) -> bool:
    sources = [step_graph.producer(tensor) for tensor in node.input]
    return node.op == "GatherV2" and sources[0] == read and read not in sources[1:]


def _with_devices(definition, devices: Mapping[str, str]):
    if not devices:
        return definition
    copy = type(definition)()
    copy.CopyFrom(definition)
    for node in copy.node_def:
        node.device = devices.get(node.name, node.device)
    return copy
