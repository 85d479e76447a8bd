"""A network of Linux's network namespaces, one for each task, with links that the kernel shapes.

    chief ── switch ──┬── worker 0          each of these lines a link: a veth pair, or a `wire`
                      ├── worker 1          if it has latency, with a token bucket (`tc … tbf`) at
                      └── switch ─┬─ ps 0   either end if its rate is limited
                       (uplink)   └─ ps 1

The two switches are bridges in one more namespace, the hub, so that the machine's own network holds
nothing but the chief's end of a veth pair. Addresses are of 198.18.0.0/15, which is set aside for
benchmarks of networks (RFC 2544); there is no way out of the namespaces but to the chief. Each
network of a process has a subnet of its own, which stays unreachable when the network is gone: else
what TensorFlow still sends to it would leave the machine.

Everything is named after the process that made it (routes have its id for their metric). What a
process left that has died is removed when the next network is made; nothing else is ever touched.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tf_dynacomm.testbed import network, task, wire
from tf_dynacomm.testbed.link import Link

_NAME = re.compile(r"(?:dynacomm-(?P<owner>\d+)-\d+-\w+|dc(?P<chief>\d+)x\d+)")
_PORT = 2222  # The same for all, as each task has a host of its own.
_FIRST_WORKER, _FIRST_PS = 10, 150
_MAX_WORKERS = _FIRST_PS - _FIRST_WORKER
_SUBNETS = [f"198.{18 + high}.{low}" for high in range(2) for low in range(256)]
# The machine's own may be BBR, under which steps on a link of 20 Mbit/s took a fifth longer than
# under Reno, which every kernel has.
_CONGESTION_CONTROL = "reno"
_BURST_S = 1e-3
_MIN_BURST_BYTES = 20_000  # What TCP hands over at once must fit: see `_PACKETS`.
# Of 50 ms, and no less than the 1,000 packets of 1,500 bytes that Linux gives a device. A burst
# whose last packet finds no place stands still for 0.2 s, until TCP misses it.
_QUEUE_S, _MIN_QUEUE_BYTES = 0.05, 1_500_000
# With packets of 1500 bytes headers would take 5 % of the rate. TCP hands over two at once, not 64
# KiB, so that buckets are small: a full one passes at once, faster than the link.
_PACKETS = ("mtu", "9000", "gso_max_size", "18000")
_UNREACHABLE = ("proto", "220", "type", "unreachable")  # A protocol that no router goes by.
_numbers = itertools.count()


@functools.cache
def obstacle() -> str | None:
    """Tells why such networks cannot be made here; `None` if they can."""
    if not sys.platform.startswith("linux"):
        return f"they are Linux's; this is {sys.platform}."
    if os.geteuid() != 0:
        return "this takes root."
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"there is no program `{program}`; install iproute2."
    probe = f"dynacomm-{os.getpid()}-{next(_numbers)}-probe"
    try:
        _run("ip", "netns", "add", probe)
    except RuntimeError as e:
        return f"{e}"
    try:
        _set_congestion_control(probe)
        _shape(probe, "lo", 1e6)
    except RuntimeError as e:
        return f"{e}"
    finally:
        _run("ip", "netns", "delete", probe)
    return None


class Namespaces(network.Network):
    """A network of namespaces; arguments as `Links` has them.

    Args:
      workers: The link of each worker.
      ps: The link that the PS tasks share.
      ps_tasks: Number of PS tasks.

    Raises:
      ValueError: There are too many tasks.
      RuntimeError: A command failed.
    """

    def __init__(self, workers: Sequence[Link], ps: Link, ps_tasks: int):
        if len(workers) > _MAX_WORKERS or ps_tasks > 100:
            raise ValueError(f"`workers` ({len(workers)}) must be at most {_MAX_WORKERS}.")
        remove_leftovers()
        number = next(_numbers)
        self._prefix = f"dynacomm-{os.getpid()}-{number}"
        self._hub = f"{self._prefix}-hub"
        self._chief = f"dc{os.getpid()}x{number}"
        self._subnet = _free_subnet(os.getpid() + number)
        self._made: list[str] = []
        self._wires: list[subprocess.Popen] = []
        self._ends: dict[tuple[str, int], tuple[tuple[str, str], tuple[str, str]]] = {}
        self.cluster_spec = {
            "worker": [self._address(_FIRST_WORKER + n) for n in range(len(workers))],
            "ps": [self._address(_FIRST_PS + n) for n in range(ps_tasks)],
        }
        try:
            self._make(workers, ps, ps_tasks)
        except BaseException:
            self.close()
            raise

    def enter_command(self, job: str, task: int) -> Sequence[str]:
        """Returns what to put before a command to run it in a task's place."""
        return ("ip", "netns", "exec", self._namespace(job, task))

    def server_command(self, job: str, task_index: int) -> Sequence[str]:
        """Returns the command that serves a task in its namespace."""
        return (*self.enter_command(job, task_index), sys.executable, "-m", task.__name__)

    def set_link(self, job: str, task: int, link: Link) -> None:
        """Changes a link's rates; its latency stays."""
        near, far = self._ends[job, task]
        _shape(*near, link.down_bytes_per_s)
        _shape(*far, link.up_bytes_per_s)

    def close(self) -> None:
        """Removes all that was made."""
        for process in self._wires:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self._wires.clear()
        while self._made:
            _run("ip", "netns", "delete", self._made.pop())
        with contextlib.suppress(RuntimeError):  # The kernel removes it with the hub, in its time.
            _run("ip", "link", "delete", self._chief)

    def _make(self, workers: Sequence[Link], ps: Link, ps_tasks: int) -> None:
        _keep_in(f"{self._subnet}.0/24")
        self._add_namespace(self._hub)
        for bridge in ("workers", "servers"):
            _run("ip", "-n", self._hub, "link", "add", bridge, "type", "bridge")
            _run("ip", "-n", self._hub, "link", "set", bridge, "up")
        peer = ("peer", "chief", "netns", self._hub, *_PACKETS)
        _run("ip", "link", "add", self._chief, *_PACKETS, "type", "veth", *peer)
        _run("ip", "address", "add", f"{self._subnet}.1/24", "dev", self._chief)
        _run("ip", "link", "set", self._chief, "up")
        self._plug("chief", "workers")
        self._connect(("ps", 0), (self._hub, "uplink"), (self._hub, "servers-uplink"), ps)
        self._plug("uplink", "workers")
        self._plug("servers-uplink", "servers")
        for number, link in enumerate(workers):
            self._add_task("worker", number, _FIRST_WORKER + number, link)
        for number in range(ps_tasks):
            self._add_task("ps", number, _FIRST_PS + number, None)

    def _add_task(self, job: str, number: int, host: int, link: Link | None) -> None:
        namespace, port = self._namespace(job, number), f"{job}{number}"
        self._add_namespace(namespace)
        if link is None:
            _veth((self._hub, port), (namespace, "eth0"))
        else:
            self._connect((job, number), (self._hub, port), (namespace, "eth0"), link)
        self._plug(port, "workers" if job == "worker" else "servers")
        address = f"{self._subnet}.{host}/24"
        _run("ip", "-n", namespace, "address", "add", address, "dev", "eth0")
        _run("ip", "-n", namespace, "link", "set", "eth0", *_PACKETS, "up")
        _run("ip", "-n", namespace, "link", "set", "lo", "up")

    def _add_namespace(self, name: str) -> None:
        _run("ip", "netns", "add", name)
        self._made.append(name)
        _set_congestion_control(name)

    def _connect(self, key: tuple[str, int], near, far, link: Link) -> None:
        """Makes a link between two (namespace, device); `near` is the end away from the task."""
        if link.latency_s:
            self._wires.append(_wire(near, far, link.latency_s))
        else:
            _veth(near, far)
        self._ends[key] = (near, far)
        self.set_link(*key, link)

    def _plug(self, device: str, bridge: str) -> None:
        _run("ip", "-n", self._hub, "link", "set", device, *_PACKETS, "master", bridge, "up")

    def _namespace(self, job: str, task: int) -> str:
        return f"{self._prefix}-{job}{task}"

    def _address(self, host: int) -> str:
        return f"{self._subnet}.{host}:{_PORT}"


def remove_leftovers() -> None:
    """Removes what processes made that have died."""
    for listing, remove in (
        (("netns", "list"), ("netns", "delete")),
        (("link", "show", "type", "veth"), ("link", "delete")),
    ):
        for entry in _listed(*listing):
            name = entry.get("name") or entry.get("ifname", "")
            match = _NAME.fullmatch(name)
            if match and not _lives(match["owner"] or match["chief"]):
                _remove(*remove, name)
    for route in _listed("route", "show", *_UNREACHABLE):
        if not _lives(route["metric"]):
            _remove(*_route("delete", route["dst"], route["metric"]))


def _listed(*command: str) -> list[Mapping]:
    return json.loads(_run("ip", "-json", *command) or "[]")


def _lives(pid: int | str) -> bool:
    return pathlib.Path("/proc", f"{pid}").exists()


def _remove(*command: str) -> None:
    with contextlib.suppress(RuntimeError):  # Another process was faster.
        _run("ip", *command)


def _free_subnet(first: int) -> str:
    """A subnet that no device has, nor any process has had; the search starts at the `first`."""
    devices = {a["local"] for device in _listed("-4", "address") for a in device["addr_info"]}
    used = {address.rpartition(".")[0] for address in devices}
    used |= {r["dst"].rpartition(".")[0] for r in _listed("route", "show", *_UNREACHABLE)}
    start = first % len(_SUBNETS)
    return next(s for s in _SUBNETS[start:] + _SUBNETS[:start] if s not in used)


def _keep_in(subnet: str) -> None:
    """Makes a subnet unreachable for as long as this process runs, wherever no device has it."""
    _run("ip", *_route("add", subnet, os.getpid()))
    atexit.register(_remove, *_route("delete", subnet, os.getpid()))


def _route(action: str, subnet: str, metric: int) -> tuple[str, ...]:
    return ("route", action, "unreachable", subnet, "proto", "220", "metric", f"{metric}")


def _veth(near: tuple[str, str], far: tuple[str, str]) -> None:
    peer = ("peer", far[1], "netns", far[0])
    _run("ip", "-n", near[0], "link", "add", near[1], *_PACKETS, "type", "veth", *peer)


def _wire(near: tuple[str, str], far: tuple[str, str], latency_s: float) -> subprocess.Popen:
    """Starts a wire in the namespace of `near`, and moves its other end to that of `far`."""
    here = f"{near[1]}-far"
    there = ("ip", "netns", "exec", near[0])
    process = subprocess.Popen(
        (*there, sys.executable, "-m", wire.__name__, near[1], here, f"{latency_s}"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    if process.stdout.readline() != b"ready\n":
        raise RuntimeError(f"The wire {near[1]} cannot be made: see the message above.")
    _run("ip", "-n", near[0], "link", "set", here, "netns", far[0], "name", far[1])
    return process


def _set_congestion_control(namespace: str) -> None:
    setting = f"echo {_CONGESTION_CONTROL} > /proc/sys/net/ipv4/tcp_congestion_control"
    _run("ip", "netns", "exec", namespace, "sh", "-c", setting)


def _shape(namespace: str, device: str, rate_bytes_per_s: float) -> None:
    """Limits what a device sends."""
    tc = ("tc", "-n", namespace, "qdisc")
    if math.isinf(rate_bytes_per_s):
        _run(*tc, "replace", "dev", device, "root", "pfifo")
        return
    burst_bytes = max(_MIN_BURST_BYTES, math.ceil(rate_bytes_per_s * _BURST_S))
    queue_bytes = max(_MIN_QUEUE_BYTES, math.ceil(rate_bytes_per_s * _QUEUE_S))
    sizes = ("burst", f"{burst_bytes}b", "limit", f"{queue_bytes}b")
    rate = ("rate", f"{rate_bytes_per_s * 8:.0f}bit")
    _run(*tc, "replace", "dev", device, "root", "tbf", *rate, *sizes)


def _run(*command: str) -> str:
    """Runs a command.

    Raises:
      RuntimeError: It failed; the message has what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
