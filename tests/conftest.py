"""Settings of all tests, and training steps traced as under a parameter-server strategy."""

import dataclasses
import itertools

import hypothesis
import pytest

# The time that an example takes never decides a test.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

WORKER = "/device:CPU:0"


def _ps(task: int) -> str:
    return f"/job:ps/replica:0/task:{task}/device:CPU:0"


@dataclasses.dataclass
class TracedStep:
    """A traced step: its concrete function, its variables, its placed graph and its layers."""

    concrete: object
    variables: list
    initial: list
    graph: object
    layers: tuple

    @property
    def function_def(self):
        """The step as traced."""
        return self.concrete.function_def

    def run_here(self, function_def) -> list:
        """Runs a definition with every task in this process; returns the variables' values."""
        import tensorflow as tf

        from tf_dynacomm.runtime import tf_internals

        for variable, value in zip(self.variables, self.initial, strict=True):
            variable.assign(value)
        here = _placed_here(function_def)
        tf_internals.with_function_def(self.concrete, here)(tf.reshape(tf.range(8.0), [2, 4]) / 8)
        return [variable.numpy() for variable in self.variables]


_numbers = itertools.count()


def _placed_here(function_def):
    """A copy, under a name of its own, that runs all tasks' operations in this process."""
    copy = type(function_def)()
    copy.CopyFrom(function_def)
    copy.signature.name += f"_here_{next(_numbers)}"
    for node in copy.node_def:
        if node.device:
            node.device = WORKER
    return copy


class Program:
    """Variables on PS tasks, and a training step that uses them."""

    def __init__(self):
        self._variables = []
        self._devices = {}

    def variable(self, name, value, *, trainable=True, ps=0):
        """Makes a variable that lives on a PS task; names must differ."""
        import tensorflow as tf

        variable = tf.Variable(value, trainable=trainable, name=name)
        self._variables.append(variable)
        self._devices[name] = _ps(ps)
        return variable

    def device(self, variable):
        """The scope in which operations run beside a variable."""
        import tensorflow as tf

        return tf.device(self._devices[variable.name.partition(":")[0]])

    def descend(self, variables, gradients):
        """Updates variables on their PS tasks."""
        for variable, gradient in zip(variables, gradients, strict=True):
            with self.device(variable):
                variable.assign_sub(0.1 * gradient)

    def trace(self, step) -> TracedStep:
        """Traces `step(x)`, `x` being a float32 tensor of shape (None, 4), on the worker."""
        import tensorflow as tf

        from tf_dynacomm.runtime import layers

        @tf.function(input_signature=[tf.TensorSpec([None, 4])])
        def on_worker(x):
            with tf.device(WORKER):
                return step(x)

        concrete = on_worker.get_concrete_function()
        graph = self._placed(concrete)
        initial = [v.numpy() for v in self._variables]
        return TracedStep(concrete, self._variables, initial, graph, layers.layer_table(graph))

    def _placed(self, concrete):
        from tf_dynacomm.runtime import step_graph, tf_internals

        variables = {
            arg: dataclasses.replace(v, device=self._devices[v.name])
            for arg, v in tf_internals.variables_of(concrete).items()
        }
        types = tf_internals.TensorTypes(concrete.graph)
        return step_graph.StepGraph(concrete.function_def, variables, types)


@pytest.fixture(scope="session")
def make_program():
    """Makes an empty `Program`."""
    return Program
