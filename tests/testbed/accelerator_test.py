"""Sleep is never shorter than asked, so that the tests look at the least time only."""

import math
import time

import pytest
import tensorflow as tf

from tf_dynacomm.testbed import accelerator, emulation_check

_CHAIN = (
    accelerator.Stage((accelerator.Tensors("one", (30, 3)),), 0.01, 0.02),
    accelerator.Stage((accelerator.Tensors("two", (20,)),), 0.03, 0.04),
)
_BRANCHES = (
    accelerator.Stage((accelerator.Tensors("stem", (4,)),), 0.0, 0.0),
    accelerator.Stage(
        (accelerator.Tensors("left", (5, 2)), accelerator.Tensors("right", (6,))), 0.01, 0.02
    ),
    accelerator.Stage((accelerator.Tensors("head", (7,)),), 0.0, 0.01),
)


def _gradients(stages):
    """A function from slowness to the gradients of all tensors."""
    model = accelerator.build(stages)

    @tf.function
    def compute(slowness):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(slowness))
        return tape.gradient(loss, model.trainable_variables)

    return compute


def _least_s(function, *args, runs: int = 3) -> float:
    function(*args)
    taken_s = []
    for _ in range(runs):
        start_s = time.perf_counter()
        function(*args)
        taken_s.append(time.perf_counter() - start_s)
    return min(taken_s)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (((), 0.1, 0.1), "at least one layer"),
        (((accelerator.Tensors("a", (1,)),), -0.1, 0.1), r"`forward_s` \(-0.1\) must be finite"),
        (((accelerator.Tensors("a", (1,)),), 0.1, math.nan), r"`backward_s` \(nan\) must be"),
    ],
)
def test_stages_are_checked(stage, message):
    with pytest.raises(ValueError, match=message):
        accelerator.Stage(*stage)


@pytest.mark.parametrize(("stages", "sizes"), [(_CHAIN, (30, 3, 20)), (_BRANCHES, (4, 5, 2, 6, 7))])
def test_every_tensor_gets_a_gradient_of_its_size(stages, sizes):
    gradients = _gradients(stages)(tf.ones([1], tf.float64))

    assert tuple(gradient.shape[0] for gradient in gradients) == sizes
    assert all(0 < float(g[0]) < 1e-9 and float(g[0]) == float(g[-1]) for g in gradients)


@pytest.mark.parametrize(("stages", "asked_s"), [(_CHAIN, 0.1), (_BRANCHES, 0.04)])
def test_step_takes_the_time_of_all_stages(stages, asked_s):
    assert _least_s(_gradients(stages), tf.ones([1], tf.float64)) > 0.99 * asked_s


def test_slow_worker_takes_longer():
    slowness = tf.constant([3.0], tf.float64)

    assert _least_s(_gradients(_CHAIN), slowness, runs=1) > 0.99 * 0.3


def test_operations_take_no_time_of_their_own():
    """A late clock is caught up with: what comes after starts when it should have started."""
    now_s = time.time()

    end_s = float(accelerator._sleep_until(tf.constant([now_s - 1.0], tf.float64))[0])
    assert end_s == now_s - 1.0


def test_gradients_are_not_known_before_the_step_runs():
    concrete = _gradients(_CHAIN).get_concrete_function(tf.TensorSpec([1], tf.float64))
    sleeping = [op for op in concrete.graph.get_operations() if op.type == "IteratorGetNextSync"]

    assert len(sleeping) == 4
    assert not any(op.type == "Const" for t in concrete.outputs for op in [t.op])


def test_check_tells_whether_the_emulation_holds():
    assert emulation_check.Check(asked_s=1.0, taken_s=1.029).holds
    assert not emulation_check.Check(asked_s=1.0, taken_s=1.031).holds


def test_check_asks_for_all_times():
    found = emulation_check.check(_CHAIN, steps=1)

    assert found.asked_s == pytest.approx(0.1)
    assert found.taken_s > 0.99 * found.asked_s
