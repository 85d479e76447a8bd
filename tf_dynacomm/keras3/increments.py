"""Increments of variables that several workers share.

Keras 3 counts with `v.assign(v + 1)`: its metrics and its optimizers' iterations are read on the
worker, increased there and written back, so that of two workers that do so at once one does it in
vain. Where a traced step assigns to a variable its own value plus something, the something is sent
to the parameter server and added there; the result is the same number.
"""

from __future__ import annotations

import functools

import tensorflow as tf

_COPIES = {"Identity", "Snapshot"}
_READ = "ReadVariableOp"
_WRITES = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"}


def with_atomic_increments(next_creator, **kwargs):
    """A variable creator whose variables are increased where they are."""
    variable = next_creator(**kwargs)
    if hasattr(variable, "handle"):  # One that is in several parts has none.
        variable.assign = functools.partial(_assign, variable, variable.assign)
    return variable


def _assign(variable: tf.Variable, assign, value, *args, **kwargs):
    added = _added(variable, value)
    if added is None:
        return assign(value, *args, **kwargs)
    return variable.assign_add(added, *args, **kwargs)


def _added(variable: tf.Variable, value) -> tf.Tensor | None:
    """What is added to `variable` if `value` is its value plus that; else `None`."""
    if not tf.is_symbolic_tensor(value) or value.op.type != "AddV2":
        return None
    for own, added in (value.op.inputs, reversed(value.op.inputs)):
        if added.shape == variable.shape and _reads(_origin(own), variable):
            return added
    return None


def _origin(tensor: tf.Tensor) -> tf.Operation:
    """The operation whose output `tensor` is a copy of."""
    while tensor.op.type in _COPIES:
        tensor = tensor.op.inputs[0]
    return tensor.op


def _reads(op: tf.Operation, variable: tf.Variable) -> bool:
    """Whether `op` reads `variable`, which has not been written since."""
    if op.type != _READ:
        return False
    handle = op.inputs[0]
    if handle is not op.graph.capture(variable.handle):
        return False
    in_order = op.graph.get_operations()
    since = in_order[in_order.index(op) :]
    return not any(o.type in _WRITES and o.inputs[0] is handle for o in since)
