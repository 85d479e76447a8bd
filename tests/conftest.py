"""Settings of all tests, and training steps traced as under a parameter-server strategy."""

import dataclasses
import gc
import itertools
import pathlib
from unittest import mock

import hypothesis
import pytest

# The time that an example takes never decides a test.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

WORKER = "/device:CPU:0"
_TESTS = pathlib.Path(__file__).parent
_LONGEST = (
    "faults/workers_test.py",
    "cluster/variables_test.py",
    "cluster/models_test.py",
    "tools/train_test.py",
    "cluster/optimizers_test.py",
    "cluster/keras3_fit_test.py",
)


def pytest_collection_modifyitems(items):
    """Lets the longest files go first, so that test processes end at the same time."""
    with_cluster = {item.path for item in items if item.get_closest_marker("cluster")}

    def rank(item) -> tuple[int, bool]:
        name = item.path.relative_to(_TESTS).as_posix()
        place = _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)
        return place, item.path not in with_cluster

    items.sort(key=rank)


def pytest_collection_finish():
    """Spares all later collections of garbage what has been imported: Keras 3 asks for many."""
    gc.collect()
    gc.freeze()


def _ps(task: int) -> str:
    return f"/job:ps/replica:0/task:{task}/device:CPU:0"


@dataclasses.dataclass
class TracedStep:
    """A traced step: its concrete function, its variables, and the step as plans see it."""

    concrete: object
    variables: list
    initial: list
    function: object

    @property
    def function_def(self):
        """The step as traced."""
        return self.concrete.function_def

    @property
    def graph(self):
        """Its placed graph."""
        return self.function.graph

    @property
    def layers(self) -> tuple:
        """Its layer table."""
        return self.function.layers

    def run_here(self, function_def) -> list:
        """Runs a definition with every task in this process; returns the variables' values."""
        from tf_dynacomm.runtime import tf_internals

        here = _placed_here(function_def)
        return self.values_after(tf_internals.with_function_def(self.concrete, here))

    def values_after(self, function) -> list:
        """Calls a function like the step's; returns the variables' values."""
        import tensorflow as tf

        for variable, value in zip(self.variables, self.initial, strict=True):
            variable.assign(value)
        function(tf.reshape(tf.range(8.0), [2, 4]) / 8)
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

    def place(self, variable, device):
        """Lets a variable live elsewhere than on a PS task."""
        self._devices[variable.name.partition(":")[0]] = device

    def device(self, variable):
        """The scope in which operations run beside a variable."""
        import tensorflow as tf

        return tf.device(self._devices[variable.name.partition(":")[0]])

    def descend(self, variables, gradients):
        """Updates variables on their PS tasks."""
        for variable, gradient in zip(variables, gradients, strict=True):
            with self.device(variable):
                variable.assign_sub(0.1 * gradient)

    def trace(self, step, worker: str = WORKER) -> TracedStep:
        """Traces `step(x)`, `x` being a float32 tensor of shape (None, 4), on a worker's device."""
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 4])])
        def on_worker(x):
            with tf.device(worker):
                return step(x)

        concrete = on_worker.get_concrete_function()
        initial = [v.numpy() for v in self._variables]
        return TracedStep(concrete, self._variables, initial, self._function(concrete))

    def _function(self, concrete):
        from tf_dynacomm.runtime import step_function, tf_internals

        variables = {
            arg: dataclasses.replace(v, device=self._devices[v.name])
            for arg, v in tf_internals.variables_of(concrete).items()
        }
        with mock.patch.object(tf_internals, "variables_of", return_value=variables):
            return step_function.StepFunction(concrete)


@pytest.fixture
def garbage_kept():
    """Collects no garbage while a test parses Python.

    When a finalizer fails pytest formats the error, for which Python parses the line that raised
    it; CPython 3.11 cannot do that in the midst of parsing something else (SystemError).
    """
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def make_program():
    """Makes an empty `Program`."""
    return Program
