"""Trains a small program under stock's strategy or ours, and tells what came of it."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Collection, Mapping

import numpy as np
import pytest
import tensorflow as tf

import tf_dynacomm
from tests.cluster import programs
from tf_dynacomm.runtime import reassociation, step_graph, steps

EPOCHS, STEPS_PER_EPOCH = 3, 2
_ROWS, _BATCH = 24, 8


@dataclasses.dataclass(frozen=True)
class Program:
    """A model to train, and what of it can be grouped.

    Attributes:
      build: Makes the compiled model with the Keras that it is given; called under a scope.
      data: Which of `arrays` it is trained on.
      layers: How many layers its plan has; unchecked if `None`.
      gathered: Parts of the names of the tables of which the worker gets rows only.
      sparse: Parts of the names of the tables that the worker gets whole and gives rows back to.
      unmoved: Parts of the names of the weights that no step needs, or only in a loop or condition.
      partitioner: As for `ParameterServerStrategy`.
      in_keras_3: What is different with Keras 3, by attribute; or why there is no such program.
    """

    build: Callable
    data: str = "vectors"
    layers: int | None = None
    gathered: Collection[str] = ()
    sparse: Collection[str] = ()
    unmoved: Collection[str] = ()
    partitioner: object = None
    in_keras_3: Mapping[str, object] | str = dataclasses.field(default_factory=dict)

    def of(self, keras) -> Program:
        """The program as it is with a Keras; skips the test if there is none."""
        if keras.__name__ == "tf_keras":
            return self
        if isinstance(self.in_keras_3, str):
            pytest.skip(self.in_keras_3)
        return dataclasses.replace(self, **self._with_tables_read_whole() | self.in_keras_3)

    def _with_tables_read_whole(self) -> dict[str, object]:
        """What is different since Keras 3 reads a whole table to take rows of it."""
        if not self.gathered:
            return {}
        return {"gathered": (), "sparse": self.gathered, "layers": self.layers + 1}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a training led to: the model, its losses and metrics, and all that it has learnt."""

    model: object
    history: dict[str, list[float]]
    weights: list[np.ndarray]
    step: steps.Step | None


def arrays(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels 0..3, the same at every call."""
    random = np.random.default_rng(0)
    inputs = {
        "vectors": lambda: random.random((_ROWS, 8), np.float32),
        "images": lambda: random.random((_ROWS, 6, 6, 2), np.float32),
        "sequences": lambda: random.random((_ROWS, 5, 4), np.float32),
        "tokens": lambda: random.integers(0, 40, (_ROWS, 5)),
        "texts": lambda: random.choice(["red", "green", "blue", "?"], (_ROWS, 5)),
    }
    return inputs[kind](), random.integers(0, 4, _ROWS)


def dataset(kind: str) -> tf.data.Dataset:
    """Endless batches of 8."""
    return tf.data.Dataset.from_tensor_slices(arrays(kind)).repeat().batch(_BATCH)


def fit_data(keras, dataset_fn: Callable[[], tf.data.Dataset]):
    """A dataset as the `fit` of a Keras takes it under a parameter-server strategy."""

    def of_context(context):
        del context
        return dataset_fn()

    if keras.__name__ == "tf_keras":
        return keras.utils.experimental.DatasetCreator(of_context)
    return of_context


def make_strategy(keras, cluster_spec, *, stock: bool = False, **kwargs):
    """Our strategy, or stock's; where stock's cannot run a Keras, ours that schedules nothing."""
    if stock and keras.__name__ != "tf_keras":
        return programs.make_strategy(cluster_spec, scheduler="stock", **kwargs)
    return programs.make_strategy(cluster_spec, stock=stock, **kwargs)


def build(keras, program: Program, strategy):
    """The program's model under a strategy, the same at every call."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        return program.build(keras)


def fit(keras, model, kind: str = "vectors", **kwargs) -> dict[str, list[float]]:
    """Trains a model for some epochs, each with another plan; returns losses and metrics."""
    kwargs = {"epochs": EPOCHS, "steps_per_epoch": STEPS_PER_EPOCH, "verbose": 0} | kwargs
    callbacks = [another_plan_each_epoch(keras, model.distribute_strategy)]
    callbacks.extend(kwargs.pop("callbacks", ()))
    data = fit_data(keras, lambda: dataset(kind))
    return model.fit(data, callbacks=callbacks, **kwargs).history


def train(keras, program: Program, cluster_spec, *, stock: bool = False, **kwargs) -> Outcome:
    """Trains a program on a cluster."""
    strategy = make_strategy(
        keras, cluster_spec, stock=stock, variable_partitioner=program.partitioner
    )
    model = build(keras, program, strategy)
    history = fit(keras, model, program.data, **kwargs)
    step = None if stock else strategy.coordinator.training_step
    return Outcome(model, history, all_weights(model), step)


def another_plan_each_epoch(keras, strategy):
    """A callback that switches to another plan at the end of each epoch; idle under stock's."""

    def switch(epoch, logs):
        del logs
        planned = isinstance(strategy, tf_dynacomm.DynaCommStrategy)
        if planned and strategy.coordinator.training_step is not None:
            switch_plan(strategy.coordinator.training_step, epoch)

    return keras.callbacks.LambdaCallback(on_epoch_end=switch)


def switch_plan(step: steps.Step, number: int) -> None:
    """Switches a step that has a plan to another one."""
    if step.plan is not None:
        step.set_plan(plan_for(step, number))


def plan_for(step: steps.Step, number: int) -> tf_dynacomm.Plan:
    """Plan 0, 1 or 2 for a step: all layers at once if it is even, else two segments."""
    last = len(step.layers)
    cut = [(1, last // 2), (last // 2 + 1, last)] if last > 1 and number % 2 else [(1, last)]
    push = cut[::-1] if step.trains else ()
    return tf_dynacomm.Plan(cut, push, credit=2 + number, names=step.names)


def all_weights(model) -> list[np.ndarray]:
    """The values of the model's weights and of what its optimizer keeps."""
    optimizer = getattr(model, "optimizer", None)
    kept = optimizer.variables if optimizer is not None else ()
    return values([*model.weights, *(kept() if callable(kept) else kept)])


def values(variables) -> list[np.ndarray]:
    """The values of variables, shards one by one."""
    return [s.numpy() for v in variables for s in getattr(v, "variables", (v,))]


def assert_equal(ours: Outcome, theirs: Outcome) -> None:
    """Checks that two trainings gave the same numbers, bit for bit, all along."""
    assert ours.history == theirs.history
    for mine, other in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(mine, other, strict=True)


def plans_used(step: steps.Step) -> set[tf_dynacomm.Plan]:
    """The plans that the finished steps have followed."""
    return {time.plan for time in step.times.latest()}


def assert_grouped(program: Program, outcome: Outcome) -> None:
    """Checks that segments move every weight but those named, and that no more is moved."""
    step, model = outcome.step, outcome.model
    pulled, pushed = moved(step)
    elsewhere = [*program.gathered, *program.unmoved]
    assert pulled == _names(model.weights, elsewhere)
    assert pushed == _names(model.trainable_weights, [*elsewhere, *program.sparse])
    assert packs(step, "pull") == _one_for_each_segment_task_and_dtype(step)
    assert set(left_alone(step)) <= _added_to_constants(step)
    tables = set(_names(model.weights)) - set(_names(model.weights, program.gathered))
    assert tables.isdisjoint(_sent_whole(step))
    names = step.names
    assert program.layers in (None, len(names))


def _added_to_constants(step: steps.Step) -> set[str]:
    """Reads that travel by themselves, lest TensorFlow adds constants to them before others."""
    pulls = [pull for layer in step.layers for pull in layer.pulls]
    exposed = [pull for pull in pulls if reassociation.meets_a_constant(step.graph, pull)]
    return {crossing.tensor for pull in exposed for crossing in pull.crossings}


def _one_for_each_segment_task_and_dtype(step: steps.Step) -> set[str]:
    return {
        f"pull_{number}/{step_graph.task_of(p.variable.device).replace(':', '')}/{p.type.dtype}"
        for number, (first, last) in enumerate(step.plan.pull, start=1)
        for layer in step.layers[first - 1 : last]
        for p in layer.pulls
    }


def _sent_whole(step: steps.Step) -> set[str]:
    """The names of the variables that the running function sends whole, in no segment."""
    sources = [c.source for c in _running_graph(step).crossings]
    read = [s.inputs[0] for s in sources if s.op == "ReadVariableOp"]
    return {step.graph.variables[arg].name for arg in read if arg in step.graph.variables}


def moved(step: steps.Step) -> tuple[list[str], list[str]]:
    """The sorted names of the variables that a step pulls and pushes in segments."""
    pulled = {p.variable for layer in step.layers for p in layer.pulls}
    pushed = {p.variable for layer in step.layers for p in layer.pushes}
    return sorted(v.name for v in pulled), sorted(v.name for v in pushed)


def left_alone(step: steps.Step) -> list[str]:
    """Tensors that the running function sends one by one though they could travel together."""
    alone = {crossing.tensor for crossing in _running_graph(step).crossings}
    groups = collections.defaultdict(set)
    for crossing in step.graph.crossings:
        if crossing.tensor in alone and crossing.type.is_packable:
            tasks = crossing.source.task, step_graph.task_of(crossing.device)
            groups[*tasks, crossing.type.dtype, crossing.level].add(crossing.tensor)
    return [tensor for group in groups.values() if len(group) > 1 for tensor in sorted(group)]


def packs(step: steps.Step, direction: str) -> set[str]:
    """What the running function packs for `"pull"` or `"push"`: `pull_1/ps0/float32` and so on."""
    segment = re.compile(rf"(?:.*/)?dynacomm/({direction}_\d+/.*)/pack")
    matches = (segment.fullmatch(node.name) for node in _running(step).node_def)
    return {match[1] for match in matches if match}


def _running(step: steps.Step):
    """The definition that moves data: of the function that runs, or of one that it calls."""
    function = step._variant(step.plan).inference_fn
    definitions = [f.cached_definition for f in (function, *function.children)]
    return max(definitions, key=lambda d: sum("dynacomm/" in n.name for n in d.node_def))


def _running_graph(step: steps.Step) -> step_graph.StepGraph:
    return step_graph.StepGraph(_running(step), step.graph.variables, lambda tensor: None)


def _names(weights, parts: Collection[str] = ()) -> list[str]:
    """The names that TensorFlow knows weights by, less those that contain one of `parts`."""
    shards = [(_path(w), s) for w in weights for s in getattr(w, "variables", (w,))]
    kept = [s for path, s in shards if not any(part in path for part in parts)]
    return sorted(_tf_name(s) for s in kept)


def _path(weight) -> str:
    return getattr(weight, "path", weight.name)


def _tf_name(weight) -> str:
    """The name of the variable beneath a weight: Keras 3 wraps one, tf_keras uses it itself."""
    variable = weight if isinstance(weight, tf.Variable) else getattr(weight, "value", weight)
    return variable.name.removesuffix(":0")
