import numpy as np
import pytest
import tensorflow as tf

from tf_dynacomm.plan import Plan, PlanMismatchError
from tf_dynacomm.runtime import tf_internals


def _two_layers(program):
    """Variables, and one step of training them that says nowhere where it runs."""
    kernels = [program.variable(f"dense_{i}/kernel", tf.eye(4) * i) for i in (1, 2)]

    def train(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.nn.relu(x @ kernels[0]) @ kernels[1]) ** 2)
        for kernel, gradient in zip(kernels, tape.gradient(loss, kernels), strict=True):
            kernel.assign_sub(0.1 * gradient)
        return loss

    return kernels, train


@pytest.fixture(scope="module")
def looped(make_program):
    """A step that runs three times in a loop."""
    program = make_program()
    _, train = _two_layers(program)

    def steps(x):
        loss = 0.0
        for _ in tf.range(3):
            loss = train(x)
        return loss

    return program.trace(tf.autograph.to_graph(steps))


@pytest.fixture(scope="module")
def conditional(make_program):
    """A step that runs while a condition holds that each turn asks."""
    program = make_program()
    _, train = _two_layers(program)

    def steps(x):
        def body(i):
            tf.cond(tf.reduce_sum(x) > 0, lambda: train(x), lambda: 0.0)
            return i + 1

        return tf.while_loop(lambda i: i < 2, body, [tf.constant(0)])

    return program.trace(steps)


@pytest.fixture(scope="module")
def called(make_program):
    """A step with a layer that is a function."""
    program = make_program()
    first = program.variable("first/kernel", tf.eye(4))
    kernel = program.variable("called/kernel", 2 * tf.eye(4))

    @tf.function
    def layer(x):
        return tf.nn.relu(x @ kernel)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(layer(x @ first) ** 2)
        for variable, gradient in zip(
            (first, kernel), tape.gradient(loss, (first, kernel)), strict=True
        ):
            variable.assign_sub(0.1 * gradient)

    return program.trace(step)


_ALL = ("looped", "conditional", "called")


@pytest.fixture(params=_ALL)
def traced(request):
    """Each of the steps in turn."""
    return request.getfixturevalue(request.param)


def _names(step):
    return [layer.name for layer in step.layers]


def test_the_layers_of_a_step_are_found_wherever_it_runs(looped, conditional, called):
    assert _names(looped) == _names(conditional) == ["dense_1", "dense_2"]
    assert _names(called) == ["first", "called"]
    assert all(step.function.trains for step in (looped, conditional, called))


def test_a_step_inside_a_loop_may_run_several_times(looped, conditional, called):
    assert (looped.function.repeats, conditional.function.repeats) == (True, True)
    assert not called.function.repeats


def _run_here(step, plan):
    """The variables' values after a planned step, all of whose tasks are in this process."""
    made = step.function._step.with_plan(plan, f"_here_{id(plan)}")
    for node in (n for definition in made for n in definition.node_def):
        node.device = "/device:CPU:0" if node.device else ""
    *inner, outer = made
    return step.values_after(tf_internals.with_function_def(step.concrete, outer, inner))


@pytest.mark.parametrize(
    "plan",
    [Plan([(1, 2)], [(1, 2)]), Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)])],
    ids=["one", "layers"],
)
def test_a_planned_step_computes_the_same_bits(traced, plan):
    expected = traced.values_after(traced.concrete)
    assert not any(map(np.array_equal, expected, traced.initial))
    np.testing.assert_array_equal(_run_here(traced, plan), expected)


def test_every_function_on_the_way_to_the_step_is_made_anew(conditional):
    plan = Plan([(1, 2)], [(1, 2)])
    branch, body, outer = conditional.function._step.with_plan(plan, "_x")
    assert [d.signature.name[-2:] for d in (branch, body, outer)] == ["_x"] * 3
    (condition,) = (n for n in body.node_def if n.op == "If")
    assert condition.attr["then_branch"].func.name == branch.signature.name
    (loop,) = (n for n in outer.node_def if n.op == "While")
    assert loop.attr["body"].func.name == body.signature.name


def test_a_plan_for_other_layers_is_refused(looped):
    with pytest.raises(PlanMismatchError, match="is for 1 layers; this step has 2"):
        looped.function.with_plan(Plan([(1, 1)], [(1, 1)]))


def test_a_step_that_pulls_nothing_has_no_layers(make_program):
    step = make_program().trace(lambda x: tf.cond(tf.reduce_all(x > 0), lambda: x, lambda: -x))
    assert (step.layers, step.function.trains, step.function.repeats) == ((), False, False)


def test_a_step_that_only_reads_is_found_in_its_loop(make_program):
    program = make_program()
    kernel = program.variable("dense/kernel", tf.eye(4))
    step = program.trace(
        lambda x: tf.while_loop(lambda x: True, lambda x: (x @ kernel,), [x], maximum_iterations=2)
    )
    assert (_names(step), step.function.trains) == (["dense"], False)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_function_to_compile_is_found_however_deep(compiled):
    factor = tf.Variable(2.0)

    @tf.function(jit_compile=compiled)
    def inner(x):
        return x * factor

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def outer(x):
        return tf.while_loop(lambda x: True, lambda x: inner(x), [x], maximum_iterations=2)

    assert tf_internals.compiles_variables(outer.get_concrete_function()) == compiled


def test_a_function_to_compile_may_be_run_that_has_no_variables():
    """Stock runs it on the worker."""
    square = tf.function(lambda x: x * x, jit_compile=True)
    outer = tf.function(square, input_signature=[tf.TensorSpec([2])])
    assert not tf_internals.compiles_variables(outer.get_concrete_function())


@pytest.fixture
def no_global_seed():
    """Takes back what other tests in this process have set."""
    tf.random.set_seed(None)


@pytest.mark.parametrize("seed", [3, None])
def test_seeded_draws_are_found_however_deep(seed, no_global_seed):
    @tf.function
    def inner(x):
        return x + tf.random.uniform([2], seed=seed)

    @tf.function
    def middle(x):
        return inner(x)

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def outer(x):
        return tf.while_loop(lambda x: True, lambda x: middle(x), [x], maximum_iterations=2)

    found = tf_internals.draws_seeded_numbers(outer.get_concrete_function())
    assert found == (seed is not None)


def test_the_functions_of_a_step_begin_with_itself(conditional):
    functions = tf_internals.functions_of(conditional.concrete)
    names = list(functions)
    assert names[0] == conditional.function_def.signature.name
    assert len(names) == len(set(names)) >= 5  # Loop and condition have two functions each.
