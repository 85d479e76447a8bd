import numpy as np
import pytest
import tensorflow as tf

from tf_dynacomm.keras3 import increments


@pytest.fixture
def make_variable():
    """Makes a variable with atomic increments."""

    def make(value, dtype=tf.float32):
        with tf.variable_creator_scope(increments.with_atomic_increments):
            return tf.Variable(value, dtype=dtype)

    return make


def _writes(step, *args) -> set[str]:
    """The kinds of writes in a traced step."""
    graph = tf.function(step).get_concrete_function(*args).graph
    return {op.type for op in graph.get_operations() if op.type.startswith("Assign")}


@pytest.mark.parametrize(
    "new", [lambda v: v + 2.0, lambda v: 2.0 + v, lambda v: tf.identity(v) + 2]
)
def test_its_own_value_plus_something_is_added_in_place(make_variable, new):
    variable = make_variable(1.0)

    def step():
        variable.assign(new(variable))

    assert _writes(step) == {"AssignAddVariableOp"}
    tf.function(step)()
    assert variable.numpy() == 3.0


@pytest.mark.parametrize(
    "new", [lambda v: v * 2.0, lambda v: v - 2.0, lambda v: tf.constant(2.0) + 1.0]
)
def test_anything_else_is_assigned(make_variable, new):
    variable = make_variable(1.0)
    assert _writes(lambda: variable.assign(new(variable))) == {"AssignVariableOp"}


def test_another_variable_plus_something_is_assigned(make_variable):
    variable, other = make_variable(1.0), make_variable(5.0)
    assert _writes(lambda: variable.assign(other + 1.0)) == {"AssignVariableOp"}


def test_a_sum_of_another_shape_is_assigned(make_variable):
    """It is broadcast, which adding in place is not."""
    variable = make_variable([1.0, 2.0])

    def step():
        variable.assign(variable + 1.0)

    assert _writes(step) == {"AssignVariableOp"}
    tf.function(step)()
    np.testing.assert_array_equal(variable, [2.0, 3.0])


def test_a_value_from_before_another_write_is_assigned(make_variable):
    variable = make_variable(1.0)

    @tf.function
    def step():
        increased = variable + 1.0
        variable.assign(7.0)
        variable.assign(increased)

    step()
    assert variable.numpy() == 2.0


def test_each_of_two_increments_in_a_step_is_added(make_variable):
    variable = make_variable(1.0)

    def step():
        variable.assign(variable + 1.0)
        variable.assign(variable + 2.0)

    assert _writes(step) == {"AssignAddVariableOp"}
    tf.function(step)()
    assert variable.numpy() == 4.0


@pytest.mark.parametrize("dtype", [tf.int64, tf.int32, tf.uint32])
def test_counters_of_whole_numbers_are_increased(make_variable, dtype):
    variable = make_variable([3, 0], dtype)
    tf.function(lambda: variable.assign(variable + tf.constant([0, 1], dtype)))()
    np.testing.assert_array_equal(variable, [3, 1])


def test_outside_a_function_nothing_changes(make_variable):
    variable = make_variable(1.0)
    variable.assign(variable + 1.0)
    assert variable.numpy() == 2.0
