"""Time can only be longer than a link makes it, so that the tests look at the least time only."""

import math

import pytest

from tests.testbed.traffic import Traffic
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed import namespaces
from tf_dynacomm.testbed.link import Link

_RATE = 4e6
_SIZE = 2_000_000
_BURST = 400_000  # What passes at once: token buckets, and queues of 50 ms on the way.


@pytest.mark.parametrize("rates", [{"down_bytes_per_s": 0.0}, {"up_bytes_per_s": math.nan}])
def test_rates_must_be_positive(rates):
    with pytest.raises(ValueError, match=r"bytes_per_s` \(.*\) must be positive"):
        Link(**rates)


@pytest.mark.parametrize("latency_s", [-0.1, math.inf, math.nan])
def test_latency_must_be_finite(latency_s):
    with pytest.raises(ValueError, match="must be finite and not negative"):
        Link(latency_s=latency_s)


def test_ways_to_make_links_are_known():
    with pytest.raises(ValueError, match="`how` \\('tunnel'\\) must be 'namespaces', 'relay'"):
        links_lib.Links(Link(), how="tunnel")


def test_namespaces_asked_for_but_not_possible_say_why(monkeypatch):
    monkeypatch.setattr(namespaces, "obstacle", lambda: "this takes root.")

    with pytest.raises(RuntimeError, match=r"cannot be used: this takes root\."):
        links_lib.Links(Link(), how="namespaces")
    assert links_lib.Links(Link()).how == "relay"


def test_links_are_for_the_workers_there_are():
    links = links_lib.Links([Link(), Link()], how="relay")

    with pytest.raises(ValueError, match="must be for 3 workers, not for 2"):
        links.open({"worker": 3, "ps": 1})


def test_rates_are_set_of_open_links_only():
    with pytest.raises(RuntimeError, match="not in use"):
        links_lib.Links(Link(), how="relay").set_rate("worker", up_bytes_per_s=1e6)


def test_rates_are_set_of_links_there_are(how, opened):
    links = links_lib.Links(Link(), how=how)
    opened(links)

    with pytest.raises(ValueError, match="no link of worker 1, but of worker 0, ps 0"):
        links.set_rate("worker", 1, up_bytes_per_s=1e6)


def test_links_serve_one_cluster_at_a_time(opened):
    links = links_lib.Links(Link(), how="relay")
    opened(links)

    with pytest.raises(RuntimeError, match="in use"):
        opened(links)


def test_bytes_arrive_unchanged(how, opened):
    with Traffic(opened(links_lib.Links(Link(), how=how))) as traffic:
        traffic.echo_s(_SIZE)


@pytest.mark.parametrize("direction", ["down_bytes_per_s", "up_bytes_per_s"])
def test_each_direction_is_as_slow_as_it_says(how, opened, direction):
    links = links_lib.Links(Link(**{direction: _RATE}), how=how)

    with Traffic(opened(links)) as traffic:
        assert traffic.echo_s(_SIZE) > (_SIZE - _BURST) / _RATE


def test_workers_share_the_link_of_the_ps(how, opened):
    links = links_lib.Links(Link(), Link(up_bytes_per_s=_RATE), how=how)

    with Traffic(opened(links, ps=2)) as traffic:
        assert traffic.echo_s(_SIZE) > (_SIZE - _BURST) / _RATE


def test_latency_is_added_each_way(how, opened):
    links = links_lib.Links(Link(latency_s=0.05), how=how)

    with Traffic(opened(links)) as traffic:
        assert traffic.echo_s(1) > 0.1


def test_rate_is_changed_while_links_are_in_use(how, opened):
    links = links_lib.Links(Link(), how=how)

    with Traffic(opened(links)) as traffic:
        links.set_rate("worker", 0, down_bytes_per_s=_RATE)
        assert traffic.echo_s(_SIZE) > (_SIZE - _BURST) / _RATE
