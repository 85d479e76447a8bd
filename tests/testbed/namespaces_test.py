import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.testbed import traffic
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed import namespaces
from tf_dynacomm.testbed.link import Link

_CRASHES = """
import os, signal
from tf_dynacomm.testbed import links
from tf_dynacomm.testbed.link import Link
links.Links(Link(latency_s=0.001), how="namespaces").open({"worker": 1, "ps": 1})
os.kill(os.getpid(), signal.SIGKILL)
"""
_ENDS = """
from tf_dynacomm.testbed import links
from tf_dynacomm.testbed.link import Link
links = links.Links(Link(), how="namespaces")
links.open({"worker": 1, "ps": 1})
links.close()
"""


def _names() -> set[str]:
    listed = subprocess.run(["ip", "-json", "netns", "list"], capture_output=True, check=True)
    links = subprocess.run(["ip", "-json", "link"], capture_output=True, check=True)
    return {
        entry.get("name") or entry["ifname"]
        for text in (listed.stdout, links.stdout)
        for entry in json.loads(text or "[]")
    }


def _routes(pid: int) -> list[dict]:
    command = ["ip", "-json", "route", "show", "proto", "220", "type", "unreachable"]
    listed = subprocess.run(command, capture_output=True, check=True)
    return [route for route in json.loads(listed.stdout or "[]") if route["metric"] == pid]


def _of(pid: int) -> set[str]:
    prefixes = (f"dynacomm-{pid}-", f"dc{pid}x")
    return {name for name in _names() if name.startswith(prefixes)}


def _shapes(namespace: str, device: str) -> dict:
    command = ["tc", "-json", "-s", "-n", namespace, "qdisc", "show", "dev", device]
    listed = subprocess.run(command, capture_output=True, check=True)
    return json.loads(listed.stdout)[0]


def test_obstacle_names_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert namespaces.obstacle.__wrapped__() == "this takes root."


def test_obstacle_names_a_missing_program(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespaces.shutil, "which", lambda program: program == "ip" or None)

    assert "`tc`; install iproute2" in namespaces.obstacle.__wrapped__()


@pytest.mark.usefixtures("needs_namespaces")
class TestNamespaces:
    def test_nothing_is_left(self, opened):
        links = links_lib.Links(Link(latency_s=0.001))
        opened(links, workers=2, ps=2)
        assert len(_of(os.getpid())) == 6  # The hub, four tasks, and the chief's device.

        links.close()
        assert not _of(os.getpid())

    def test_leftovers_of_a_crash_are_removed(self):
        with subprocess.Popen([sys.executable, "-c", _CRASHES]) as owner:
            assert owner.wait() == -signal.SIGKILL
        assert _of(owner.pid)
        assert _routes(owner.pid)

        namespaces.remove_leftovers()
        assert not _of(owner.pid)
        assert not _routes(owner.pid)

    def test_nothing_sent_to_a_network_that_is_gone_leaves_the_machine(self, opened):
        links = links_lib.Links(Link())
        host, port = opened(links).cluster_spec["ps"][0].split(":")
        links.close()

        with pytest.raises(OSError, match=r"unreachable|No route"):
            socket.create_connection((host, int(port)), timeout=5)

    def test_nothing_is_left_at_the_end_of_the_process(self):
        with subprocess.Popen([sys.executable, "-c", _ENDS]) as owner:
            assert owner.wait() == 0

        assert not _of(owner.pid)
        assert not _routes(owner.pid)

    def test_networks_of_the_living_are_left_alone(self, opened):
        opened(links_lib.Links(Link()))
        before = _of(os.getpid())

        namespaces.remove_leftovers()
        assert _of(os.getpid()) == before

    def test_what_others_made_is_left_alone(self):
        other = f"dynacomm-of-{os.getpid()}"
        subprocess.run(["ip", "netns", "add", other], check=True)
        try:
            namespaces.remove_leftovers()
            assert other in _names()
        finally:
            subprocess.run(["ip", "netns", "delete", other], check=True)

    def test_what_was_made_is_removed_when_the_rest_fails(self, monkeypatch, opened):
        monkeypatch.setattr(namespaces.Namespaces, "_add_task", lambda *args: 1 / 0)

        with pytest.raises(ZeroDivisionError):
            opened(links_lib.Links(Link()))
        assert not _of(os.getpid())

    def test_failed_command_is_told(self):
        with pytest.raises(RuntimeError, match=r"`ip netns delete no-such-one` failed: .*No such"):
            namespaces._run("ip", "netns", "delete", "no-such-one")

    def test_two_networks_have_subnets_of_their_own(self, opened):
        one = opened(links_lib.Links(Link()))
        other = opened(links_lib.Links(Link()))

        assert one.cluster_spec["ps"] != other.cluster_spec["ps"]

    def test_buckets_have_the_rates(self, opened):
        net = opened(links_lib.Links(Link(down_bytes_per_s=1e6, up_bytes_per_s=2e6)))
        hub, worker = net._hub, net._namespace("worker", 0)

        assert _shapes(hub, "worker0")["options"]["rate"] == 1e6
        assert _shapes(worker, "eth0")["options"]["rate"] == 2e6
        assert _shapes(hub, "uplink")["kind"] == "pfifo"

    def test_a_burst_finds_its_place(self, opened):
        net = opened(links_lib.Links(Link(down_bytes_per_s=20e6 / 8)))
        with traffic.Traffic(net) as sent:
            sent.echo_s(1_000_000)

        assert _shapes(net._hub, "worker0")["drops"] == 0

    def test_tcp_does_not_depend_on_the_machine(self, opened):
        net = opened(links_lib.Links(Link()))
        read = ("cat", "/proc/sys/net/ipv4/tcp_congestion_control")

        for job in ("worker", "ps"):
            command = [*net.enter_command(job, 0), *read]
            assert subprocess.run(command, capture_output=True).stdout == b"reno\n"
