import pytest
import tensorflow as tf

from tf_dynacomm import strategy
from tf_dynacomm.plan import Plan

_PLAN = Plan([(1, 1)], [(1, 1)])


def test_an_unknown_scheduler_is_told_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"`scheduler` \('fast'\) must be one of .*dynacomm, .*stock"
    ):
        strategy.DynaCommStrategy(None, scheduler="fast")


def test_a_plan_is_no_path():
    with pytest.raises(TypeError, match=r"`plan` \('plan\.json'\) must be a Plan; Plan\.load"):
        strategy.DynaCommStrategy(None, plan="plan.json")


def test_stock_follows_no_plan():
    with pytest.raises(ValueError, match="`plan` must be None"):
        strategy.DynaCommStrategy(None, plan=_PLAN, scheduler="stock")


def _resolver(**jobs):
    return tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(jobs))


def test_a_cluster_is_needed():
    with pytest.raises(TypeError, match=r"`cluster_resolver` \(None\) must be a ClusterResolver"):
        strategy.DynaCommStrategy(None)


@pytest.mark.parametrize(
    ("jobs", "missing"),
    [
        ({"worker": ["localhost:1"]}, r"\(jobs: worker\) must name at least one ps"),
        ({"ps": ["localhost:1"]}, "at least one worker"),
        ({}, r"\(jobs: none\) must name at least one worker and one ps"),
    ],
)
def test_a_cluster_has_workers_and_parameter_servers(jobs, missing):
    with pytest.raises(ValueError, match=missing):
        strategy.DynaCommStrategy(_resolver(**jobs))


@pytest.mark.parametrize("timeout_s", [0, -1.0, float("nan")])
def test_the_time_to_connect_is_above_zero(timeout_s):
    resolver = _resolver(worker=["localhost:1"], ps=["localhost:2"])
    with pytest.raises(ValueError, match=r"`connect_timeout_s` .* must be above 0"):
        strategy.DynaCommStrategy(resolver, connect_timeout_s=timeout_s)
