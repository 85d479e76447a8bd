import pytest
import tensorflow as tf

_EYE = tf.eye(4)


def _depths(program, step):
    """The names of the layers, those of one depth together."""
    return [sorted(p.variable.name for p in x.pulls) for x in program.trace(step).layers]


@pytest.fixture
def program(make_program):
    return make_program()


@pytest.fixture
def kernels(program):
    return [program.variable(f"dense_{i}/kernel", _EYE) for i in (1, 2)]


@pytest.mark.parametrize(
    "transform",
    [
        tf.transpose,
        lambda kernel: tf.cast(tf.cast(kernel, tf.float64), tf.float32),
        lambda kernel: kernel * tf.math.rsqrt(tf.reduce_sum(kernel**2) + 1e-3),
    ],
    ids=["transposed", "cast", "normalized"],
)
def test_a_transformed_variable_is_as_deep_as_the_data_that_it_meets(program, kernels, transform):
    def step(x):
        first, last = (transform(kernel) for kernel in kernels)
        return tf.nn.relu(x @ first) @ last

    assert _depths(program, step) == [["dense_1/kernel"], ["dense_2/kernel"]]


def test_shards_are_as_deep_as_what_they_make_together(program, kernels):
    shards = [program.variable(f"sharded/kernel/part_{i}", _EYE[2 * i : 2 * i + 2]) for i in (0, 1)]
    found = _depths(program, lambda x: x @ kernels[0] @ tf.concat(shards, axis=0) @ kernels[1])
    assert found == [["dense_1/kernel"], [s.name[:-2] for s in shards], ["dense_2/kernel"]]


def test_a_regularizer_does_not_make_its_variables_one_layer(program, kernels):
    def step(x):
        loss = tf.reduce_sum(x @ kernels[0] @ kernels[1])
        return loss + tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])

    assert _depths(program, step) == [["dense_1/kernel"], ["dense_2/kernel"]]


def test_what_only_a_regularizer_reads_comes_last(program, kernels):
    def step(x):
        penalty = tf.nn.l2_loss(kernels[0])
        return tf.reduce_sum(x @ kernels[1]) + penalty

    assert _depths(program, step) == [["dense_2/kernel"], ["dense_1/kernel"]]


def test_what_never_meets_data_is_in_no_layer(program, kernels):
    iterations = program.variable("iteration", 3.0, trainable=False)

    def step(x):
        rate = 0.1 / (1.0 + iterations)
        with program.device(kernels[0]):
            kernels[0].assign_sub(rate * _EYE)
        return x @ kernels[1]

    assert _depths(program, step) == [["dense_2/kernel"]]


def test_random_numbers_are_data(program, kernels):
    def step(x):
        del x
        return tf.random.normal([2, 4]) @ kernels[0] @ kernels[1]

    assert _depths(program, step) == [["dense_1/kernel"], ["dense_2/kernel"]]
