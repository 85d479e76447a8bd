import types

import pytest

from tests.testbed.traffic import Traffic
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed import relay, relay_network
from tf_dynacomm.testbed.link import Link


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(s=100.0)
    monkeypatch.setattr(relay.time, "monotonic", lambda: now.s)
    return now


def test_bytes_wait_for_those_before(clock):
    rate = relay.Rate(1000.0)

    first_s, second_s = rate.passed_s(500), rate.passed_s(500)
    assert (second_s - first_s, first_s) == (0.5, pytest.approx(100.5, abs=0.01))


def test_rate_holds_though_threads_wake_late(clock):
    rate, passed_s = relay.Rate(1e6), 0.0
    for _ in range(1000):
        passed_s = rate.passed_s(10_000)
        clock.s = passed_s + 1e-3

    assert passed_s - 100 == pytest.approx(10.0, rel=1e-3)


def test_nothing_passes_before_it_comes(clock):
    assert relay.Rate(1e12).passed_s(1) >= clock.s


def test_idle_time_is_not_made_up_for(clock):
    rate = relay.Rate(1000.0)
    rate.passed_s(1)
    clock.s += 60

    assert rate.passed_s(1000) == pytest.approx(161.0, abs=0.01)


@pytest.mark.parametrize(("rate", "size"), [(1e3, 2048), (1e7, 10_000), (1e12, 1 << 16)])
def test_chunks_take_about_a_millisecond(rate, size):
    assert relay.Rate(rate).chunk_bytes == size


def _rates(relay_, source, target):
    return relay_._path(source, target)[0]


def test_path_is_up_from_the_source_and_down_to_the_target():
    carried = relay.Relay([("worker", 0, 1.0, 2.0, 0.0), ("ps", 0, 3.0, 4.0, 0.0)])

    there = _rates(carried, ("worker", 0), ("ps", 1))
    back = _rates(carried, ("ps", 1), ("worker", 0))
    assert [rate.bytes_per_s for rate in there] == [2.0, 3.0]
    assert [rate.bytes_per_s for rate in back] == [4.0, 1.0]


def test_chief_has_no_link_of_its_own():
    carried = relay.Relay([("worker", 0, 1.0, 2.0, 0.0), ("ps", 0, 3.0, 4.0, 0.0)])

    assert [rate.bytes_per_s for rate in _rates(carried, None, ("worker", 0))] == [1.0]


def test_ps_tasks_are_near_each_other():
    carried = relay.Relay([("ps", 0, 3.0, 4.0, 0.0)])

    assert carried._path(("ps", 0), ("ps", 1)) == ([], [])


def test_connections_of_others_do_not_cross_a_workers_link(opened):
    links = links_lib.Links(Link(1.0, 1.0), how="relay")  # A byte a second.

    with Traffic(opened(links)) as traffic:
        traffic.echo_s(100_000, known=False)


def test_relay_that_does_not_start_is_told(monkeypatch):
    monkeypatch.setattr(relay_network.relay, "__name__", "tf_dynacomm.no_such_module")

    with pytest.raises(RuntimeError, match="relay does not start"):
        relay_network.RelayNetwork([Link()], Link(), 1)
