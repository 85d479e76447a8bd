"""Every use of private TensorFlow API in `runtime`, each with what it relies on."""

from __future__ import annotations

import copy

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.coordinator import cluster_coordinator, coordinator_context
from tensorflow.python.eager.polymorphic_function import atomic_function

from tf_dynacomm.runtime import step_graph


def with_function_def(base, function_def):
    """A copy of the concrete function `base` that runs `function_def` instead.

    Relies on `ConcreteFunction` calling `_inference_function` with the flat arguments and captures
    when no tape watches, and on `atomic_function.from_function_def` registering a definition with
    the context, which sends it to the workers. `function_def` must have `base`'s signature.
    """
    variant = copy.copy(base)
    variant._inference_function = atomic_function.from_function_def(
        function_def, base.function_type
    )
    return variant


def step_graph_of(base) -> step_graph.StepGraph:
    """The graph of a traced step."""
    return step_graph.StepGraph(base.function_def, variables_of(base), TensorTypes(base.graph))


def draws_seeded_numbers(base) -> bool:
    """Whether the step has operations that draw random numbers in a sequence that a seed fixes.

    Relies on such operations carrying `seed` and `seed2`, both 0 for an unpredictable sequence, and
    on their state living in the operation: another function with the same seeds begins anew.
    """
    definitions = [base.function_def, *(f.definition for f in base.inference_fn.children)]
    return any(
        node.attr["seed"].i or node.attr["seed2"].i
        for definition in definitions
        for node in definition.node_def
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
            found[arg] = step_graph.Variable(arg, name, variable.trainable, external.device)
    return found


class TensorTypes:
    """Finds the type of `"node:output:index"` in the graph that a `FunctionDef` was made from."""

    def __init__(self, graph):
        self._graph = graph

    def __call__(self, tensor: str) -> step_graph.TensorType:
        """The type of a tensor."""
        node, output, index = tensor.split(":")
        op = self._graph.get_operation_by_name(node)
        value = op.outputs[_first_output(op, output) + int(index)]
        shape = value.shape.as_list() if value.shape.is_fully_defined() else None
        dtype = value.dtype.base_dtype
        return step_graph.TensorType(
            dtype.name, None if shape is None else tuple(shape), _item_bytes(dtype)
        )


def _first_output(op, output: str) -> int:
    """Index of the first tensor of the named output of an operation."""
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


class Closure(cluster_coordinator.Closure):
    """A closure whose function is chosen when it runs, for the worker that runs it.

    Relies on `Closure.__init__` tracing the function into `_concrete_function`, and on `execute_on`
    calling `_function` in the worker's thread, inside the worker's dispatch context, and returning
    when the step has ended.
    """

    def __init__(self, function, cancellation_mgr, args, kwargs, runner_of):
        super().__init__(function, cancellation_mgr, args=args, kwargs=kwargs)
        runner = runner_of(self._concrete_function)

        def run(*args, **kwargs):
            worker = coordinator_context.get_current_dispatch_context().worker_index
            return runner(worker, *args, **kwargs)

        self._function = cancellation_mgr.get_cancelable_function(run)


class Cluster(cluster_coordinator.Cluster):
    """A cluster that schedules `Closure`s of the kind above.

    Relies on `schedule` being the only maker of training closures, and on the closure queue's `put`
    and its cancellation manager.
    """

    def __init__(self, strategy, runner_of):
        super().__init__(strategy)
        self._runner_of = runner_of

    def schedule(self, function, args, kwargs):
        """Queues a closure; returns its `RemoteValue`."""
        manager = self.closure_queue._cancellation_mgr
        closure = Closure(function, manager, args, kwargs, self._runner_of)
        result = closure.build_output_remote_value()
        self.closure_queue.put(closure)
        return result


class Coordinator(tf.distribute.coordinator.ClusterCoordinator):
    """A coordinator whose steps run through `runner_of(concrete_function)(worker, *args)`.

    Relies on `ClusterCoordinator.__new__` giving the strategy's one coordinator, on
    `_has_initialized` making `__init__` run once, and on `_cluster` being used for all else.
    """

    def __new__(cls, strategy, *args, **kwargs):
        """Gives the strategy's one coordinator."""
        return super().__new__(cls, strategy)

    def __init__(self, strategy, runner_of):
        if not getattr(self, "_has_initialized", False):
            self._strategy = strategy
            strategy.extended._used_with_coordinator = True
            self._cluster = Cluster(strategy, runner_of)
            self._has_initialized = True


def attached(concrete_function, make):
    """The object that belongs to a concrete function, made when first asked for.

    Relies on functions taking attributes: object and function then live and die together.
    """
    if not hasattr(concrete_function, "_dynacomm"):
        concrete_function._dynacomm = make()
    return concrete_function._dynacomm
