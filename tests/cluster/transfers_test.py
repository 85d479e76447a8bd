"""The traced step shows what was planned, and makes few RPCs; stock's count stands beside it."""

from concurrent import futures

import pytest
import tensorflow as tf

import tf_dynacomm
from tests.cluster import programs
from tf_dynacomm.profiling import capture, trace

pytestmark = pytest.mark.cluster

_CAPTURE_S = 0.4
# Beyond its segments a step moves: statistics and metrics, counters, results, and the end of all.
_HANDFUL = 6


def _captured_steps(cluster_spec, plan=None, **kwargs) -> capture.Capture:
    """A short trace of a training, under stock's strategy or ours."""
    strategy = programs.make_strategy(cluster_spec, **kwargs)
    model = programs.build_cnn(strategy)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    model._cluster_coordinator = coordinator
    train, iterator = model.make_train_function(), programs.per_worker_iterator(strategy)
    train(iterator)
    coordinator.join()
    if plan is not None:
        strategy.coordinator.training_step.set_plan(plan)
    tasks = capture.Tasks(cluster_spec["worker"], cluster_spec["ps"])
    with futures.ThreadPoolExecutor() as pool:
        captured = pool.submit(capture.capture, tasks, _CAPTURE_S)
        while not captured.done():
            train(iterator)
            coordinator.join()
    return captured.result()


def _whole_steps(captured) -> list[tuple[trace.StepTrace, trace.StepTrace]]:
    worker, ps = captured.workers[0].steps, captured.ps["ps0"].steps
    both = [(worker[i], ps[i]) for i in worker.keys() & ps.keys() if worker[i].transfers]
    most = max(len(w.transfers) + len(p.transfers) for w, p in both)
    return [(w, p) for w, p in both if len(w.transfers) + len(p.transfers) == most]


@pytest.fixture(scope="module")
def plan() -> tf_dynacomm.Plan:
    return tf_dynacomm.Plan(((1, 1), (2, 4), (5, 6)), ((6, 6), (3, 5), (2, 2), (1, 1)))


@pytest.fixture(scope="module")
def planned(cluster_1w1p, plan):
    return _captured_steps(cluster_1w1p, plan)


def test_as_many_transfers_as_the_plan_has_segments(planned, plan):
    for worker, ps in _whole_steps(planned):
        pulls = [t for t in worker.transfers if "dynacomm/pull_" in t]
        pushes = [t for t in ps.transfers if "dynacomm/push_" in t]
        assert (len(pulls), len(pushes)) == (len(plan.pull), len(plan.push))


def test_pulls_leave_in_the_planned_order_each_after_the_token_of_the_one_before(planned, plan):
    for worker, ps in _whole_steps(planned):
        for number in range(2, len(plan.pull) + 1):
            before, left = (_sent_s(ps, f"dynacomm/pull_{n}/") for n in (number - 1, number))
            assert before < _sent_s(worker, f"dynacomm/pull_{number - 1}/") < left


def _sent_s(host, segment: str) -> float:
    """When a host sent the one thing of a segment that it sends: the pack, or the token."""
    (sent_s,) = (at_s for node, at_s in host.sent_s.items() if segment in node)
    return sent_s


def test_few_rpcs_each_way(planned, plan, cluster_1w1p, record_property):
    stock = _captured_steps(cluster_1w1p, stock=True)
    counts = {}
    for name, captured in (("dynacomm", planned), ("stock", stock)):
        worker, ps = _whole_steps(captured)[0]
        counts[name] = (len(worker.transfers), len(ps.transfers))
    print(f"RPCs a step, down and up: {counts}")
    record_property("rpcs", counts)
    tokens = len(plan.pull) - 1
    assert counts["dynacomm"][0] <= len(plan.pull) + _HANDFUL
    assert counts["dynacomm"][1] <= len(plan.push) + tokens + _HANDFUL
    assert sum(counts["stock"]) > sum(counts["dynacomm"])
