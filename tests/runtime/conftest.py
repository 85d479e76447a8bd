"""Small training steps that between them hold everything that a step moves."""

import itertools

import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tf_dynacomm.plan import Plan
from tf_dynacomm.runtime import rewrite

STEPS = (
    "momentum_step",
    "branching_step",
    "mixed_step",
    "shared_step",
    "two_updates_step",
    "dynamic_step",
    "evaluation_step",
    "bfloat16_step",
)


@pytest.fixture(scope="session", params=STEPS)
def any_step(request):
    """Each of the steps in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def plans():
    """Draws plans for a number of layers."""
    return _plans


@pytest.fixture(scope="session")
def rewritten():
    """Rewrites a traced step to follow a plan; returns the new definition."""

    def rewritten_step(step, plan):
        name = f"{step.function_def.signature.name}_rewritten"
        return rewrite.rewrite(step.function_def, name, step.graph, step.layers, plan)

    return rewritten_step


@pytest.fixture(scope="session")
def layer_by_layer():
    """Makes the plan in which every layer is its own segment."""

    def plan(num_layers, credit=1):
        segments = [(i, i) for i in range(1, num_layers + 1)]
        return Plan(segments, segments[::-1], credit=credit)

    return plan


@st.composite
def _plans(draw, num_layers):
    pull, push = draw(_segments(num_layers)), draw(_segments(num_layers))
    return Plan(pull, push[::-1], credit=draw(st.integers(1, 3)))


@st.composite
def _segments(draw, num_layers):
    cuts = draw(st.lists(st.booleans(), min_size=num_layers - 1, max_size=num_layers - 1))
    ends = [0, *(i for i, cut in enumerate(cuts, start=1) if cut), num_layers]
    return tuple((a + 1, b) for a, b in itertools.pairwise(ends))


def _dense(program, name, units=4, *, ps=0):
    kernel = tf.reshape(tf.range(4.0 * units), [4, units]) / 8 - 0.7
    return (
        program.variable(f"{name}/kernel", kernel, ps=ps),
        program.variable(f"{name}/bias", tf.range(float(units)) / 4, ps=ps),
    )


@pytest.fixture(scope="session")
def momentum_step(make_program):
    """Two dense layers with momentum, a moving statistic and a learning rate."""
    program = make_program()
    trained = [*_dense(program, "dense_1"), *_dense(program, "dense_2")]
    slots = [
        program.variable(f"slot_{i}", tf.zeros_like(v), trainable=False)
        for i, v in enumerate(trained)
    ]
    moving = program.variable("norm/moving_mean", tf.zeros([4]), trainable=False)
    rate = program.variable("rate", 0.1, trainable=False)

    def step(x):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(x @ trained[0] + trained[1])
            loss = tf.reduce_mean((hidden @ trained[2] + trained[3]) ** 2)
        moving.assign(tf.ensure_shape(tf.reduce_mean(hidden, axis=0), [4]))
        gradients = tape.gradient(loss, trained)
        for variable, slot, gradient in zip(trained, slots, gradients, strict=True):
            with program.device(variable):
                slot.assign(0.9 * slot - gradient * rate)
                variable.assign_add(slot)
        return loss

    return program.trace(step)


@pytest.fixture(scope="session")
def branching_step(make_program):
    """A stem, two branches of one depth, and a head that a skip reaches; on two PS tasks."""
    program = make_program()
    stem, left = _dense(program, "stem"), _dense(program, "left", ps=1)
    right, head = _dense(program, "right"), _dense(program, "head", ps=1)
    trained = [*stem, *left, *right, *head]

    def step(x):
        with tf.GradientTape() as tape:
            h = tf.nn.relu(x @ stem[0] + stem[1])
            joined = tf.nn.relu(h @ left[0] + left[1]) + tf.nn.relu(h @ right[0] + right[1]) + h
            loss = tf.reduce_mean((joined @ head[0] + head[1]) ** 2)
        program.descend(trained, tape.gradient(loss, trained))
        return loss

    return program.trace(step)


@pytest.fixture(scope="session")
def mixed_step(make_program):
    """Layers of two dtypes, and metrics that are counted on the PS."""
    program = make_program()
    single = _dense(program, "single")
    double = program.variable("double/kernel", tf.ones([4, 2], tf.float64))
    total = program.variable("metric/total", 0.0, trainable=False)
    count = program.variable("metric/count", 0.0, trainable=False)

    def step(x):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(x @ single[0] + single[1])
            loss = tf.reduce_mean((tf.cast(hidden, tf.float64) @ double) ** 2)
        gradients = tape.gradient(loss, [*single, double])
        program.descend(single, gradients[:2])
        with program.device(double):
            double.assign_sub(gradients[2])
            total.assign_add(tf.cast(loss, tf.float32))
            count.assign_add(1.0)
        return total / count

    return program.trace(step)


@pytest.fixture(scope="session")
def shared_step(make_program):
    """A kernel that two layers share, a frozen one, and one that is read again after its update."""
    program = make_program()
    shared, last = _dense(program, "shared")[0], _dense(program, "last")[0]
    frozen = program.variable("frozen/kernel", tf.eye(4), trainable=False)

    def step(x):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.relu(x @ shared) @ shared @ frozen)
            loss = tf.reduce_mean((hidden @ last) ** 2)
        program.descend((shared, last), tape.gradient(loss, (shared, last)))
        return tf.reduce_sum(last)

    return program.trace(step)


@pytest.fixture(scope="session")
def two_updates_step(make_program):
    """A step in which one variable's gradient needs the other's new value, as in a GAN."""
    program = make_program()
    judge, maker = _dense(program, "judge")[0], _dense(program, "maker")[0]

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(((x @ maker) @ judge) ** 2)
        program.descend([judge], tape.gradient(loss, [judge]))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(((x @ maker) @ judge) ** 2)
        program.descend([maker], tape.gradient(loss, [maker]))
        return loss

    return program.trace(step)


@pytest.fixture(scope="session")
def dynamic_step(make_program):
    """A gradient whose shape is not known when the step is traced, beside one whose shape is."""
    program = make_program()
    first, last = _dense(program, "first")[0], _dense(program, "last")[0]

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.nn.relu(x @ first) @ last) ** 2)
        gradients = tape.gradient(loss, (first, last))
        rows = tf.where(tf.reduce_any(gradients[0] != 0, axis=1))[:, 0]
        slices = tf.IndexedSlices(tf.gather(gradients[0], rows), rows)
        with program.device(first):
            first.scatter_sub(slices)
        program.descend([last], gradients[1:])
        return loss

    return program.trace(step)


@pytest.fixture(scope="session")
def evaluation_step(make_program):
    """Two layers that are only read."""
    program = make_program()
    first, last = _dense(program, "first"), _dense(program, "last")
    total = program.variable("metric/total", 0.0, trainable=False)

    def step(x):
        hidden = tf.nn.relu(x @ first[0] + first[1])
        loss = tf.reduce_mean((hidden @ last[0] + last[1]) ** 2)
        with program.device(total):
            total.assign_add(loss)
        return loss

    return program.trace(step)


@pytest.fixture(scope="session")
def bfloat16_step(make_program):
    """Two layers that compute in bfloat16, and one whose kernel is used in float32 too."""
    program = make_program()
    layers = [_dense(program, f"dense_{i}") for i in (1, 2)]
    mixed = program.variable("mixed/kernel", tf.eye(4))

    def step(x):
        with tf.GradientTape() as tape:
            hidden = tf.cast(x, tf.bfloat16)
            for kernel, bias in layers:
                kernel, bias = (tf.cast(v, tf.bfloat16) for v in (kernel, bias))
                hidden = tf.nn.relu(hidden @ kernel + bias)
            hidden = tf.cast(hidden @ tf.cast(mixed, tf.bfloat16), tf.float32)
            loss = tf.reduce_mean((hidden @ mixed) ** 2)
        trained = [*layers[0], *layers[1], mixed]
        program.descend(trained, tape.gradient(loss, trained))
        return loss

    return program.trace(step)


@pytest.fixture(scope="session")
def make_chain(make_program):
    """Makes a step of so many dense layers, one after the other."""

    def chain(num_layers):
        program = make_program()
        layers = [_dense(program, f"dense_{i}") for i in range(1, num_layers + 1)]

        def step(x):
            for kernel, bias in layers:
                x = tf.nn.relu(x @ kernel + bias)
            return tf.reduce_mean(x)

        return program.trace(step)

    return chain


@pytest.fixture(scope="session")
def make_statistics_step(make_program):
    """Makes a step of one dense layer that also writes so many statistics from the worker."""

    def statistics_step(count):
        program = make_program()
        kernel = _dense(program, "dense")[0]
        moving = [
            program.variable(f"norm_{i}/moving_mean", tf.zeros([4]), trainable=False)
            for i in range(count)
        ]

        def step(x):
            with tf.GradientTape() as tape:
                hidden = x @ kernel
                loss = tf.reduce_mean(hidden**2)
            for i, variable in enumerate(moving):
                variable.assign(tf.ensure_shape(tf.reduce_mean(hidden**i, axis=0), [4]))
            program.descend([kernel], tape.gradient(loss, [kernel]))

        return program.trace(step)

    return statistics_step
