"""Trainings that planning is not for: too short, or too small to gain by it."""

import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf

import tf_dynacomm
from tests.cluster import programs
from tests.faults import runs
from tf_dynacomm.runtime import step_function

pytestmark = pytest.mark.cluster


class _Slow:
    """A function that takes longer when it is called."""

    def __init__(self, function, delay_s=0.05):
        self._function, self._delay_s = function, delay_s

    def __call__(self, *args, **kwargs):
        time.sleep(self._delay_s)
        return self._function(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._function, name)


@pytest.fixture
def slow_plans(monkeypatch):
    """Lets a step take longer under whatever plan, but not as stock."""
    with_plan = step_function.StepFunction.with_plan
    monkeypatch.setattr(
        step_function.StepFunction, "with_plan", lambda self, plan: _Slow(with_plan(self, plan))
    )


def test_planning_that_does_not_pay_is_given_up_and_told(cluster, slow_plans):
    run, replan = runs.Run(cluster, stock=False), tf_dynacomm.ReplanCallback(replan_every=10)

    def is_stock():
        step = run.strategy.coordinator.training_step
        told = " ".join(r.reason or "" for r in replan.reports)
        return all(
            step.plan_of(w) is None and f"faster on worker {w}: it stays" in told for w in (0, 1)
        )

    run.train(lambda run: runs.wait_until(lambda: replan.reports and is_stock()), [replan])
    assert "running as stock was" in " ".join(r.reason or "" for r in replan.reports)


@pytest.mark.parametrize("steps", [3, 20])
def test_one_short_epoch_keeps_the_starting_plan_and_says_so(cluster, steps):
    run, replan = runs.Run(cluster, stock=False), tf_dynacomm.ReplanCallback()
    run.model.fit(runs.data(), epochs=1, steps_per_epoch=steps, verbose=0, callbacks=[replan])
    step, (report,) = run.strategy.coordinator.training_step, replan.reports
    assert {time.plan for time in step.times.latest()} == {step.starting_plan()}
    assert not report.replanned
    assert report.reason
    assert not [t for t in threading.enumerate() if t.name == "dynacomm-planner"]


def test_an_evaluator_in_the_cluster_is_not_waited_for(cluster):
    strategy = programs.make_strategy({**cluster.cluster_spec, "evaluator": ["127.0.0.1:1"]})
    assert len(strategy.tasks.workers) == 2


_PAUSE = """
import os, signal, sys, time
os.kill(int(sys.argv[1]), signal.SIGSTOP)
print(time.monotonic(), flush=True)
time.sleep(4)
print(time.monotonic(), flush=True)
os.kill(int(sys.argv[1]), signal.SIGCONT)
"""


@pytest.mark.parametrize("act", ["made", "forgotten"])
def test_others_go_on_when_a_plan_is_made_or_forgotten_while_a_worker_does_not_answer(cluster, act):
    """TensorFlow tells all tasks that a function is there or gone, and waits for their answers."""
    strategy, made = programs.make_strategy(cluster.cluster_spec), []
    step, data = _small_step(strategy)
    command = [sys.executable, "-c", _PAUSE, str(cluster.pid("worker", 1))]

    def disturb():
        runs.wait_until(lambda: strategy.coordinator.steps_finished > 20)
        training = strategy.coordinator.training_step
        plan = tf_dynacomm.Plan([(1, 2)], [(2, 2), (1, 1)], names=training.names)
        if act == "forgotten":
            training.prepare(plan)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pause:
            stopped_s = float(pause.stdout.readline())
            time.sleep(0.5)  # Until it has a step that it does not answer.
            training.prepare(plan) if act == "made" else training.forget_unused()
            continued_s = float(pause.stdout.readline())
        middle_s = (stopped_s + continued_s) / 2
        made.extend(t for t in training.times.latest() if middle_s < t.end_s < continued_s)

    disturbance = threading.Thread(target=disturb)
    disturbance.start()
    while disturbance.is_alive():
        strategy.coordinator.schedule(step, args=(data,))
        time.sleep(0.001)  # TensorFlow's queue takes any number of them.
    strategy.coordinator.join()
    assert {time.worker for time in made} == {0}


def _small_step(strategy):
    with strategy.scope():
        first, last = (tf.Variable(tf.eye(8), name=f"{name}/kernel") for name in ("one", "two"))

    def train(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.relu(x @ first) @ last)
        gradients = tape.gradient(loss, (first, last))
        for variable, gradient in zip((first, last), gradients, strict=True):
            variable.assign_sub(0.01 * gradient)

    data = strategy.coordinator.create_per_worker_dataset(
        lambda: tf.data.Dataset.from_tensors(tf.ones([4, 8])).repeat()
    )
    return tf.function(lambda data: strategy.run(train, args=(next(data),))), iter(data)
