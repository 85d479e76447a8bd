"""Programs that send bytes to one another, for tests of links."""

from __future__ import annotations

import subprocess
import sys

_SERVER = """
import socket, sys, threading
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
def echo(connection):
    while data := connection.recv(1 << 20):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
while True:
    threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
"""
_CLIENT = """
import hashlib, random, socket, sys, threading, time
host, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.stdin.readline()
data = random.Random(0).randbytes(size)
start_s = time.monotonic()
connection = socket.create_connection((host, port))
def send():
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
back = b"".join(iter(lambda: connection.recv(1 << 20), b""))
print(time.monotonic() - start_s, back == data)
"""


class Traffic:
    """A PS that echoes, and workers that send to it, each in its place in a network.

    Args:
      net: The network.
    """

    def __init__(self, net):
        self._net = net
        self._server = self._start("ps", _SERVER, *net.task_spec("ps", 0)["ps"][0].split(":"))
        self._server.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self._server.kill()
        self._server.communicate()

    def echo_s(self, size_bytes: int, *, known: bool = True) -> float:
        """Seconds in which worker 0 sends bytes and has them back unchanged."""
        address = self._net.cluster_spec["ps"][0].split(":")
        client = self._start("worker", _CLIENT, *address, f"{size_bytes}", known=known)
        taken_s, unchanged = client.communicate("go\n")[0].split()
        assert unchanged == "True"
        return float(taken_s)

    def _start(self, job: str, code: str, *args: str, known: bool = True) -> subprocess.Popen:
        enter = getattr(self._net, "enter_command", lambda job, task: ())
        process = subprocess.Popen(
            [*enter(job, 0), sys.executable, "-c", code, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if known:
            self._net.started(job, 0, process.pid)
        return process
