"""Every use of private TensorFlow API in `runtime` for functions, each with what it relies on.

What concerns scheduling them is in `tf_coordinator`.
"""

from __future__ import annotations

import atexit
import copy
import ctypes
import dataclasses
import functools

import tensorflow as tf
from tensorflow.python import _pywrap_tfe
from tensorflow.python.eager import context, executor
from tensorflow.python.eager.polymorphic_function import atomic_function, function_type_utils

from tf_dynacomm.runtime import step_graph, tensor_types


def with_function_def(base, function_def, inner=()):
    """A copy of the concrete function `base` that runs `function_def` instead.

    Relies on `ConcreteFunction` calling `_inference_function` with the flat arguments and captures
    when no tape watches, on an `AtomicFunction` being made of the name of a definition that the
    context has, and on its `children` being kept as long as itself.

    Args:
      base: The concrete function.
      function_def: A definition with its signature.
      inner: Definitions of functions that `function_def` runs, innermost first. (They are not
        called from Python, so that the type that they get here says nothing.)
    """
    *children, outer = (_registered(d, base.function_type) for d in (*inner, function_def))
    outer.children.extend(children)
    variant = copy.copy(base)
    variant._inference_function = outer
    return variant


def _registered(definition, function_type) -> atomic_function.AtomicFunction:
    """A new function; the context sends its definition to all tasks, and removes it in the end."""
    tasks = _Context(context.context())
    tasks.add_function_def(definition)
    return atomic_function.AtomicFunction(definition.signature.name, tasks, function_type)


class _Context:
    """The eager context, but that adding and removing functions leaves Python's lock to others.

    Both wait until all tasks have answered, for which TensorFlow's Python keeps the lock: a worker
    that does not answer would hold up all threads of the chief, and with them all other workers.

    Relies on the context's `_handle` being a capsule of the C API's `TFE_Context`, on
    `_pywrap_tfe` being linked against that API, and on an `AtomicFunction` adding and removing
    itself through the context that it is given.

    Args:
      eager_context: TensorFlow's.
    """

    def __init__(self, eager_context: context.Context):
        self._eager_context = eager_context

    def __getattr__(self, name: str):
        return getattr(self._eager_context, name)

    def add_function_def(self, definition) -> None:
        """Adds a function; see `Context.add_function_def`."""
        data = definition.SerializeToString()
        self._call("TFE_ContextAddFunctionDef", data, ctypes.c_size_t(len(data)))

    def remove_function(self, name: bytes) -> None:
        """Removes a function; see `Context.remove_function`."""
        self._call("TFE_ContextRemoveFunction", name)

    def _call(self, name: str, *arguments) -> None:
        api = ctypes.CDLL(_pywrap_tfe.__file__)  # Its functions are called without the lock.
        api.TF_NewStatus.restype = ctypes.c_void_p
        api.TF_Message.restype = ctypes.c_char_p
        status = ctypes.c_void_p(api.TF_NewStatus())
        handle = ctypes.c_void_p(_pointer_of(self._eager_context._handle, None))
        getattr(api, name)(handle, *arguments, status)
        failed, message = api.TF_GetCode(status), api.TF_Message(status).decode()
        api.TF_DeleteStatus(status)
        if failed:
            raise RuntimeError(f"{name}: {message}")


_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@dataclasses.dataclass(frozen=True)
class CallInputs:
    """What a worker calls a function with.

    Attributes:
      tensors: Arguments and captures, flat.
      device: The worker's device.
    """

    tensors: tuple[tf.Tensor, ...]
    device: str


def call_inputs(base, args, kwargs) -> CallInputs:
    """What calling `base` would pass on; to be asked in the worker's dispatch context.

    Relies on `ConcreteFunction` binding arguments with `canonicalize_function_inputs`, and on
    `captured_inputs` giving the resources of the worker whose context is the current one.
    """
    bound = function_type_utils.canonicalize_function_inputs(args, kwargs, base.function_type)
    flat = base.function_type.unpack_inputs(bound)
    return CallInputs((*flat, *base.captured_inputs), context.context().device_name)


def load(function, inputs: CallInputs) -> bool:
    """Makes a worker load a function without running it; returns whether it did.

    Relies on a worker checking the types of a function's inputs only when it has loaded it
    (optimised, placed, split and kept), just before it runs it; on `_inference_function`; and on
    executors being streams of their own, so that what runs on the worker meanwhile is not held up.
    A cluster that is being lost may give no error at all here.
    """
    index = _plain_input(inputs.tensors)
    if index is None:
        return False
    tensors = list(inputs.tensors)
    stream = _loading_executor()
    with context.executor_scope(stream), tf.device(inputs.device):
        try:
            tensors[index] = _of_wrong_type(tensors[index])
            function._inference_function.call_flat(*tensors)
        except tf.errors.InvalidArgumentError as e:
            return f"as input #{index}" in str(e)
        except tf.errors.OpError:
            return False
        finally:
            stream.clear_error()
    return False


def _plain_input(tensors) -> int | None:
    """Index of an input whose type is not part of what a worker keeps a loaded function by.

    That are all inputs but variables, which have `_handle_data`.
    """
    plain = (i for i, t in enumerate(tensors) if t.dtype != tf.resource or not t._handle_data)
    return next(plain, None)


def _of_wrong_type(tensor: tf.Tensor) -> tf.Tensor:
    """A tensor at the same place, of another type."""
    with tf.device(tensor.device):
        return tf.constant(False) if tensor.dtype != tf.bool else tf.constant(0.0)


@functools.cache
def _loading_executor():
    stream = executor.new_executor(enable_async=False)
    atexit.register(stream.clear_error)  # What a lost cluster has left would be raised at the end.
    return stream


@dataclasses.dataclass(frozen=True)
class Function:
    """A function as traced.

    Attributes:
      definition: Its `FunctionDef`.
      graph: The graph that the definition was made from.
    """

    definition: object
    graph: tf.Graph


def functions_of(base) -> dict[str, Function]:
    """A concrete function and all functions that it runs, by name; itself first.

    Relies on `children` of an `AtomicFunction` being what it runs, and on each keeping the graph
    that it was traced in.
    """
    found: dict[str, Function] = {}
    waiting = [base.inference_fn]
    while waiting:
        function = waiting.pop(0)
        definition = function.cached_definition
        if definition.signature.name not in found:
            found[definition.signature.name] = Function(definition, function.graph)
            waiting.extend(function.children)
    return found


def compiles_variables(base) -> bool:
    """Whether a concrete function, or one that it runs, is compiled with XLA and has variables.

    XLA compiles a function for one device; one that has no variables may run on a worker.

    Relies on `jit_compile=True` setting `_XlaMustCompile` in the function's attributes.
    """
    definitions = (f.definition for f in functions_of(base).values())
    return any(
        "_XlaMustCompile" in d.attr
        and d.attr["_XlaMustCompile"].b
        and any(arg.type == tf.resource.as_datatype_enum for arg in d.signature.input_arg)
        for d in definitions
    )


def draws_seeded_numbers(base) -> bool:
    """Whether a concrete function, or one that it runs, draws numbers in a sequence from a seed.

    Relies on operations that draw having `seed` and `seed2`, both 0 for an unpredictable sequence,
    and on their state living in the operation: another function with the same seeds begins anew.
    """
    return any(
        node.attr["seed"].i or node.attr["seed2"].i
        for function in functions_of(base).values()
        for node in function.definition.node_def
        if "seed" in node.attr and "seed2" in node.attr
    )


def variables_of(base) -> dict[str, step_graph.Variable]:
    """The variables that a concrete function captures, by argument name.

    Relies on the order of `input_arg` being that of `graph.inputs`, and on a variable's `handle`
    being the very tensor that the graph captured.
    """
    by_handle = {id(v.handle): v for v in base.graph.variables}
    args = {
        id(t): a.name
        for t, a in zip(base.graph.inputs, base.function_def.signature.input_arg, strict=True)
    }
    found = {}
    for external, internal in base.graph.captures:
        variable = by_handle.get(id(external))
        if variable is not None:
            arg, name = args[id(internal)], variable.name.rpartition(":")[0]
            found[arg] = step_graph.Variable(
                arg,
                name,
                variable.trainable,
                external.device,
                tensor_types.tensor_type(variable.shape, variable.dtype),
            )
    return found


def attached(concrete_function, make):
    """The object that belongs to a concrete function, made when first asked for.

    Relies on functions taking attributes: object and function then live and die together.
    """
    if not hasattr(concrete_function, "_dynacomm"):
        concrete_function._dynacomm = make()
    return concrete_function._dynacomm
