import pytest
import tensorflow as tf

from tf_dynacomm.runtime import coupling


def _coupled(program, clip, layers=2):
    kernels = [program.variable(f"dense_{i}/kernel", tf.eye(4)) for i in range(layers)]

    def step(x):
        with tf.GradientTape() as tape:
            for kernel in kernels:
                x = tf.nn.relu(x @ kernel)
            loss = tf.reduce_mean(x**2)
        program.descend(kernels, clip(tape.gradient(loss, kernels)))

    traced = program.trace(step)
    return coupling.gradients_wait_for_all(traced.graph, traced.layers)


@pytest.mark.parametrize(
    ("clip", "coupled"),
    [
        (lambda gradients: gradients, False),
        (lambda gradients: [tf.clip_by_value(g, -1.0, 1.0) for g in gradients], False),
        (lambda gradients: [tf.clip_by_norm(g, 1.0) for g in gradients], False),
        (lambda gradients: tf.clip_by_global_norm(gradients, 1.0)[0], True),
    ],
    ids=["free", "value", "norm", "global norm"],
)
def test_only_a_global_norm_makes_gradients_wait_for_each_other(make_program, clip, coupled):
    assert _coupled(make_program(), clip) == coupled


@pytest.mark.parametrize(
    ("clip", "coupled"),
    [(lambda g: g, False), (lambda g: tf.clip_by_global_norm(g, 1.0)[0], True)],
    ids=["free", "global norm"],
)
def test_rows_that_are_added_up_after_they_were_clipped_make_no_difference(
    make_program, clip, coupled
):
    """As Keras 3 does with the gradient of an Embedding."""
    program = make_program()
    table, kernel = (program.variable(f"{name}/v", tf.eye(4)) for name in ("table", "dense"))

    def step(x):
        with tf.GradientTape() as tape:
            rows = tf.gather(tf.convert_to_tensor(table), tf.cast(x, tf.int64))
            loss = tf.reduce_mean((tf.reshape(rows, [-1, 4]) @ kernel) ** 2)
        rows_gradient, gradient = clip(tape.gradient(loss, [table, kernel]))
        program.descend([table, kernel], [tf.convert_to_tensor(rows_gradient), gradient])

    traced = program.trace(step)
    assert len(traced.layers) == 2
    assert coupling.gradients_wait_for_all(traced.graph, traced.layers) == coupled


def test_one_layer_waits_for_no_other(make_program):
    assert not _coupled(make_program(), lambda g: tf.clip_by_global_norm(g, 1.0)[0], layers=1)


def test_a_step_that_trains_nothing_is_free(evaluation_step):
    assert not coupling.gradients_wait_for_all(evaluation_step.graph, evaluation_step.layers)
