"""The types of a step's tensors, as TensorFlow knew them when it traced the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tf_dynacomm.runtime import step_graph


class TensorTypes:
    """Finds the type of `"node:output:index"` in the graph that the node was traced in.

    Args:
      functions: The functions of a step, by name; each has the `graph` that it was traced in.
      origins: For each node, the name of its function, and its name there.
    """

    def __init__(self, functions: Mapping[str, Any], origins: Mapping[str, tuple[str, str]]):
        self._functions = functions
        self._origins = origins

    def __call__(self, tensor: str) -> step_graph.TensorType:
        """The type of a tensor."""
        node, output, index = tensor.split(":")
        function, name = self._origins[node]
        op = self._functions[function].graph.get_operation_by_name(name)
        value = op.outputs[_first_output(op, output) + int(index)]
        return tensor_type(value.shape, value.dtype.base_dtype)


def tensor_type(shape: tf.TensorShape, dtype: tf.DType) -> step_graph.TensorType:
    """The type of a tensor, from TensorFlow's own description."""
    known = tuple(shape.as_list()) if shape.is_fully_defined() else None
    return step_graph.TensorType(dtype.name, known, _item_bytes(dtype))


def _first_output(op, output: str) -> int:
    """Index of the first tensor of the named output of an operation."""
    if len(op.outputs) == 1:
        return 0
    position = 0
    for arg in op.op_def.output_arg:
        if arg.name == output:
            return position
        position += _num_tensors(op, arg)
    raise ValueError(f"Operation {op.name!r} has no output {output!r}.")


def _num_tensors(op, arg) -> int:
    if arg.number_attr:
        return op.get_attr(arg.number_attr)
    return len(op.get_attr(arg.type_list_attr)) if arg.type_list_attr else 1


def _item_bytes(dtype: tf.DType) -> int:
    if not dtype.is_numpy_compatible:
        return 0
    item = np.dtype(dtype.as_numpy_dtype)
    return 0 if item.hasobject else item.itemsize  # NumPy keeps strings as objects.
