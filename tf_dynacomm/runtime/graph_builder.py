"""Edits a `FunctionDef`: adds nodes, points inputs elsewhere, moves control dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf


class GraphBuilder:
    """A copy of a `FunctionDef` that is being edited.

    Args:
      function_def: The function to start from; it is not changed.
      name: The name of the new function.

    Attributes:
      function_def: The edited copy.
    """

    def __init__(self, function_def, name: str):
        self.function_def = type(function_def)()
        self.function_def.CopyFrom(function_def)
        self.function_def.signature.name = name
        self._nodes = {n.name: n for n in self.function_def.node_def}
        self._constants: dict[tuple, str] = {}

    def set_input(self, node: str, index: int, tensor: str) -> None:
        """Points a data input of a node at another tensor."""
        self._nodes[node].input[index] = tensor

    def set_type(self, node: str, attr: str, dtype: str) -> None:
        """Changes a type that a node was made for."""
        self._nodes[node].attr[attr].type = tf.as_dtype(dtype).as_datatype_enum

    def add_control(self, node: str, source: str) -> None:
        """Makes a node wait for another one."""
        self._nodes[node].input.append(f"^{source}")

    def replace_controls(self, node: str, old: Iterable[str], new: str) -> None:
        """Makes a node wait for `new` instead of `old`."""
        dropped = {f"^{o}" for o in old}
        kept = [i for i in self._nodes[node].input if i not in dropped]
        self._nodes[node].input[:] = [*kept, f"^{new}"]

    def set_function(self, node: str, attr: str, function: str) -> None:
        """Lets a node (a loop, say) run another function."""
        self._nodes[node].attr[attr].func.name = function

    def no_op(self, name: str, device: str, controls: Iterable[str]) -> str:
        """Adds a node that ends when all of `controls` have; returns its name."""
        return self._add(name, "NoOp", device, [f"^{c}" for c in controls])

    def identity(self, name: str, device: str, tensor: str, dtype: str) -> str:
        """Adds a copy of a tensor; returns the copy."""
        return self._add(name, "Identity", device, [tensor], T=dtype) + ":output:0"

    def lasting_identity(self, name: str, device: str, tensor: str, dtype: str) -> str:
        """Adds a copy of a tensor that keeps its name: Grappler prunes `Identity`, not this."""
        return self._add(name, "Snapshot", device, [tensor], T=dtype) + ":output:0"

    def reshape(self, name: str, device: str, tensor: str, dtype: str, shape: Sequence[int]) -> str:
        """Adds a view of a tensor with another shape; returns the view."""
        shape_tensor = self.constant(device, np.array(shape, np.int32))
        inputs = [tensor, shape_tensor]
        return self._add(name, "Reshape", device, inputs, T=dtype, Tshape="int32") + ":output:0"

    def cast(self, name: str, device: str, tensor: str, dtype: str, to: str) -> str:
        """Adds a copy of a tensor in another type; returns the copy."""
        return self._add(name, "Cast", device, [tensor], SrcT=dtype, DstT=to) + ":y:0"

    def concat(self, name: str, device: str, tensors: Sequence[str], dtype: str) -> str:
        """Lays flat tensors end to end; returns the whole."""
        inputs = [*tensors, self.constant(device, np.int32(0))]
        attrs = {"T": dtype, "Tidx": "int32", "N": len(tensors)}
        return self._add(name, "ConcatV2", device, inputs, **attrs) + ":output:0"

    def slice(self, name: str, device: str, tensor: str, dtype: str, begin: int, size: int) -> str:
        """Cuts `size` elements out of a flat tensor, without a copy if aligned; returns them.

        Each piece has a node of its own, unlike those of `Split`: where Grappler fuses operations
        it takes any output of a node for the first one (scale and offset of a LayerNorm, say).
        """
        ends = [self.constant(device, np.array([i], np.int32)) for i in (begin, size)]
        node = self._add(name, "Slice", device, [tensor, *ends], T=dtype, Index="int32")
        return f"{node}:output:0"

    def constant(self, device: str, value: np.ndarray) -> str:
        """The constant `value` on a device, added when it is first asked for."""
        value = np.asarray(value)
        key = (device, value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            name = f"dynacomm/constant_{len(self._constants)}"
            node = self._add(name, "Const", device, [], dtype=value.dtype.name)
            self._nodes[node].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
            self._constants[key] = f"{node}:output:0"
        return self._constants[key]

    def _add(self, name: str, op: str, device: str, inputs: Iterable[str], **attrs) -> str:
        node = self.function_def.node_def.add()
        node.name, node.op, node.device = self._unique(name), op, device
        node.input.extend(inputs)
        for key, value in attrs.items():
            if isinstance(value, str):
                node.attr[key].type = tf.as_dtype(value).as_datatype_enum
            else:
                node.attr[key].i = value
        self._nodes[node.name] = node
        return node.name

    def _unique(self, name: str) -> str:
        unique, number = name, 0
        while unique in self._nodes:
            number += 1
            unique = f"{name}_{number}"
        return unique
