"""Tests of `tf_dynacomm.testbed.local_cluster`."""

import errno
import pathlib
import subprocess
import sys
import time

import pytest

from tf_dynacomm import cluster_config
from tf_dynacomm.testbed import local_cluster, network

_DEADLINE_S = 60
_TASKS = (("worker", 0), ("worker", 1), ("ps", 0))

_OWNER = """
import sys, time
from tf_dynacomm.testbed.local_cluster import LocalCluster
with LocalCluster(workers=1, ps=1) as cluster:
    print(cluster.pid("worker", 0), cluster.pid("ps", 0), flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster():
    with local_cluster.LocalCluster(workers=2, ps=1) as running:
        yield running


def _runs(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_until_ended(pids) -> None:
    deadline_s = time.monotonic() + _DEADLINE_S
    while any(map(_runs, pids)):
        assert time.monotonic() < deadline_s, f"{pids} still run"
        time.sleep(0.05)


def _no_listener(monkeypatch, code: str) -> None:
    """Lets the cluster run some code in the place of servers."""
    popen = subprocess.Popen

    def start(command, **kwargs):
        return popen([sys.executable, "-c", code], **kwargs)

    monkeypatch.setattr(local_cluster.subprocess, "Popen", start)


@pytest.mark.parametrize(("workers", "ps", "name"), [(0, 1, "workers"), (1, 0, "ps")])
def test_counts_are_checked(workers, ps, name):
    with pytest.raises(ValueError, match=rf"`{name}` \(0\) must be at least 1"):
        local_cluster.LocalCluster(workers, ps)


def test_server_that_ends_is_told_with_what_it_printed(monkeypatch):
    _no_listener(monkeypatch, "import sys; sys.exit('no disk')")

    with (
        pytest.raises(RuntimeError, match="worker 0 ended with exit code 1: no disk"),
        local_cluster.LocalCluster(),
    ):
        pass


def test_server_that_does_not_listen_is_told(monkeypatch):
    _no_listener(monkeypatch, "import time; time.sleep(600)")

    with (
        pytest.raises(TimeoutError, match=r"worker 0 does not listen after 0\.2 s"),
        local_cluster.LocalCluster(start_timeout_s=0.2),
    ):
        pass


def test_taken_ports_are_tried_again_with_others(monkeypatch):
    _no_listener(monkeypatch, f"import sys; sys.exit({errno.EADDRINUSE})")
    chosen = []
    free_addresses = network.free_addresses
    monkeypatch.setattr(
        network,
        "free_addresses",
        lambda counts: chosen.append(free_addresses(counts)) or chosen[-1],
    )

    with pytest.raises(RuntimeError, match="ended with exit code"), local_cluster.LocalCluster():
        pass

    assert len(chosen) == 5


@pytest.mark.cluster
def test_all_tasks_listen_on_loopback_ports_of_their_own(cluster):
    addresses = [cluster.cluster_spec[job][task] for job, task in _TASKS]

    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert all(map(cluster_config.listens, addresses))


@pytest.mark.cluster
def test_killed_task_is_gone_and_restarted_at_its_address(cluster):
    address, pid = cluster.cluster_spec["worker"][1], cluster.pid("worker", 1)

    cluster.kill("worker", 1)
    assert not _runs(pid)
    assert not cluster_config.listens(address)

    cluster.restart("worker", 1)
    assert cluster.pid("worker", 1) != pid
    assert cluster_config.listens(address)


@pytest.mark.cluster
def test_nothing_is_left_after_an_exception():
    pids = []

    def interrupted():
        with local_cluster.LocalCluster() as cluster:
            pids.extend([cluster.pid("worker", 0), cluster.pid("ps", 0)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any(map(_runs, pids))


@pytest.mark.cluster
def test_nothing_is_left_when_the_owner_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as owner:
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(_runs, pids))

        owner.kill()
        owner.wait(_DEADLINE_S)

    _wait_until_ended(pids)
