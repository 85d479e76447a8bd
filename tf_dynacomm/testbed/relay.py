"""Carries the connections of a cluster on loopback at given rates and latencies; no root needed.

    python -m tf_dynacomm.testbed.relay SETTINGS

SETTINGS is JSON: `{"targets": [[job, task, port], …], "links": [[job, task, down, up, latency],
…]}`, rates in bytes a second and latencies in seconds. For each target the relay listens on a port
of its own choice; it prints the ports in the order of the targets, as a JSON list. Afterwards it
takes JSON lines on standard input: `["process", job, task, pid]` tells whose connections those of a
process are, `["link", job, task, down, up, latency]` changes a link. It ends when standard input is
closed.

What a task sends crosses its own link upwards and its peer's downwards. Who has opened a connection
is asked of the kernel (`/proc`); a process that is no task, such as the chief, has no link.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterable, Sequence

_HOST = "127.0.0.1"
_BUFFER_BYTES = 1 << 16  # Of sockets: more would be a queue that no real link has.
_CHUNK_S = 1e-3
_CHUNK_BYTES = (2048, 1 << 16)
_LATENESS_S = 2e-3  # How late a thread may wake without a loss of rate.
_MAX_CHUNKS = 4096

Task = tuple[str, int]


class Rate:
    """One direction of a link: says when bytes have passed it.

    Args:
      bytes_per_s: The rate; it may be changed at any time.
    """

    def __init__(self, bytes_per_s: float = math.inf):
        self.bytes_per_s = bytes_per_s
        self._free_s = 0.0
        self._lock = threading.Lock()

    def passed_s(self, size_bytes: int) -> float:
        """Puts bytes behind those that came before; returns when they have passed."""
        with self._lock:
            now_s = time.monotonic()
            start_s = max(self._free_s, now_s - _LATENESS_S)
            self._free_s = start_s + size_bytes / self.bytes_per_s
            return max(self._free_s, now_s)

    @property
    def chunk_bytes(self) -> int:
        """How much to put at once, that other connections are not kept waiting."""
        smallest, largest = _CHUNK_BYTES
        return int(min(largest, max(smallest, self.bytes_per_s * _CHUNK_S)))


@dataclasses.dataclass
class Ends:
    """Both directions of a task's link, and its latency in seconds."""

    down: Rate = dataclasses.field(default_factory=Rate)
    up: Rate = dataclasses.field(default_factory=Rate)
    latency_s: float = 0.0

    def set(self, down_bytes_per_s: float, up_bytes_per_s: float, latency_s: float) -> None:
        """Changes the link."""
        self.down.bytes_per_s, self.up.bytes_per_s = down_bytes_per_s, up_bytes_per_s
        self.latency_s = latency_s


class Relay:
    """Carries connections.

    Args:
      links: Each link as (job, task, rate down, rate up, latency). A link of task 0 of the job `ps`
        is shared by all PS tasks.
    """

    def __init__(self, links: Iterable[tuple[str, int, float, float, float]]):
        self._links: dict[Task, Ends] = {}
        self._tasks: dict[int, Task] = {}
        for job, task, *values in links:
            self._links[job, task] = Ends()
            self._links[job, task].set(*values)

    def obey(self, order: Sequence) -> None:
        """Carries out a line of standard input."""
        kind, job, task, *values = order
        if kind == "process":
            self._tasks[values[0]] = (job, task)
        else:
            self._links[job, task].set(*values)

    def listen(self, target: Task, port: int) -> int:
        """Begins to carry connections to a target's port; returns the port to connect to."""
        listener = socket.create_server((_HOST, 0), backlog=128)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        _thread(self._accept, listener, target, port)
        return listener.getsockname()[1]

    def _accept(self, listener: socket.socket, target: Task, port: int) -> None:
        while True:
            connection, (_, peer_port) = listener.accept()
            _thread(self._connect, connection, peer_port, target, port)

    def _connect(self, near: socket.socket, peer_port: int, target: Task, port: int) -> None:
        try:
            far = socket.create_connection((_HOST, port))
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        source = _owner(peer_port, near.getsockname()[1], self._tasks)
        self._carry(near, far, source, target)
        self._carry(far, near, target, source)

    def _carry(self, start: socket.socket, end: socket.socket, source, target) -> None:
        under_way: queue.Queue = queue.Queue(_MAX_CHUNKS)
        _thread(_take, start, under_way, *self._path(source, target))
        _thread(_deliver, end, under_way)

    def _path(self, source: Task | None, target: Task | None) -> tuple[list[Rate], list[Ends]]:
        """What lies between two tasks: the directions of links to pass, and the links."""
        places = [self._place(source), self._place(target)]
        if places[0] == places[1]:
            return [], []
        ends = [self._links.get(place) for place in places]
        rates = [end and end.up if n == 0 else end and end.down for n, end in enumerate(ends)]
        return [rate for rate in rates if rate], [end for end in ends if end]

    def _place(self, task: Task | None) -> Task | None:
        return ("ps", 0) if task and task[0] == "ps" else task


def _take(
    start: socket.socket, under_way: queue.Queue, rates: Sequence[Rate], links: Sequence[Ends]
) -> None:
    """Takes what is sent, as fast as the rates allow, and tells when it is due."""
    largest = _CHUNK_BYTES[1]
    with contextlib.suppress(OSError):
        while chunk := start.recv(min((rate.chunk_bytes for rate in rates), default=largest)):
            passed_s = max((rate.passed_s(len(chunk)) for rate in rates), default=time.monotonic())
            under_way.put((passed_s + sum(link.latency_s for link in links), chunk))
            _sleep_until(passed_s)
    under_way.put((time.monotonic() + sum(link.latency_s for link in links), b""))


def _deliver(end: socket.socket, under_way: queue.Queue) -> None:
    """Sends on what is due; empty bytes end the connection."""
    try:
        while True:
            due_s, chunk = under_way.get()
            _sleep_until(due_s)
            if not chunk:
                end.shutdown(socket.SHUT_WR)
                return
            end.sendall(chunk)
    except OSError:  # The receiver has gone: so let the sender know.
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        while under_way.get()[1]:
            continue


def _sleep_until(moment_s: float) -> None:
    wait_s = moment_s - time.monotonic()
    if wait_s > 0:
        time.sleep(wait_s)


def _owner(local_port: int, remote_port: int, tasks: dict[int, Task]) -> Task | None:
    """Whose a loopback connection is; `None` if no task's."""
    inode = _inode(local_port, remote_port)
    for pid, task in list(tasks.items()):
        with contextlib.suppress(OSError):
            for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) == f"socket:[{inode}]":
                        return task
    return None


def _inode(local_port: int, remote_port: int) -> str | None:
    """The inode of a socket, by the ports of its ends."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):  # gRPC's sockets are IPv6 ones.
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            ports = [int(address.rpartition(":")[2], 16) for address in fields[1:3]]
            if ports == [local_port, remote_port]:
                return fields[9]
    return None


def _thread(function, *args) -> None:
    threading.Thread(target=function, args=args, daemon=True).start()


def main(argv: Sequence[str]) -> None:
    """Carries connections until standard input is closed."""
    settings = json.loads(argv[0])
    relay = Relay(settings["links"])
    ports = [relay.listen((job, task), port) for job, task, port in settings["targets"]]
    print(json.dumps(ports), flush=True)
    for line in sys.stdin:
        relay.obey(json.loads(line))
    os._exit(0)  # Threads may be waiting for connections.


if __name__ == "__main__":
    main(sys.argv[1:])
