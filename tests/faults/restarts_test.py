"""A chief or a PS is killed: the training goes on from its last epoch, with its plan."""

import pytest

import tf_dynacomm
from tests.faults import restarts, runs

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("lost", restarts.LOST)
def test_training_goes_on_from_the_last_epoch_with_its_plan(cluster, tmp_path, lost):
    seen = restarts.lose(lost, cluster, tmp_path, "dynacomm")
    assert seen.first_epoch == seen.last_epoch + 1
    assert seen.epochs[0]["pull_segments"] == len(seen.plan.pull)
    assert (seen.error is None) == (lost == "chief")


def _fit(cluster, plan_dir):
    run = runs.Run(cluster, stock=False)
    replan = tf_dynacomm.ReplanCallback(plan_dir=plan_dir)
    run.model.fit(runs.data(), steps_per_epoch=20, verbose=0, callbacks=[replan])
    return run.strategy.coordinator.training_step


def _unusual(step, worker):
    """A plan that no scheduler makes."""
    cut, count = worker + 1, len(step.names)
    return tf_dynacomm.Plan(
        ((1, cut), (cut + 1, count)), ((count, count), (1, count - 1)), names=step.names
    )


def test_each_worker_begins_with_the_plan_kept_for_it(cluster, tmp_path):
    step = _fit(cluster, tmp_path)
    plans = {worker: _unusual(step, worker) for worker in (0, 1)}
    for worker, plan in plans.items():
        plan.save(tmp_path / f"plan-worker{worker}.json")
    used = {(t.worker, t.plan) for t in _fit(cluster, tmp_path).times.latest()}
    assert used <= set(plans.items())


@pytest.mark.parametrize("what", ["another model", "damaged"])
def test_a_plan_that_does_not_fit_is_told_and_not_used(cluster, tmp_path, caplog, what):
    path = tmp_path / "plan-worker0.json"
    tf_dynacomm.Plan(((1, 2),), ((1, 2),), names=["a", "b"]).save(path)
    if what == "damaged":
        path.write_bytes(path.read_bytes()[:-20])
    step = _fit(cluster, tmp_path)
    assert {t.plan for t in step.times.latest()} == {step.starting_plan()}
    assert "kept" in caplog.text
    assert "not used" in caplog.text


def test_a_ps_that_is_lost_ends_the_training_as_under_stock(cluster):
    import tensorflow as tf

    for stock in (False, True):
        run = runs.Run(cluster, stock=stock)
        replan = [] if stock else [tf_dynacomm.ReplanCallback()]

        def lose_ps(run):
            run.wait_for_steps(30)
            run.cluster.restart("ps", 0)

        with pytest.raises(tf.errors.UnavailableError):
            run.train(lose_ps, replan)
