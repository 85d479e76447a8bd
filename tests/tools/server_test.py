"""Tests of `tf_dynacomm.tools.server`."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tf_dynacomm import cluster_config
from tf_dynacomm.tools import server


def _run(tf_config: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", server.__name__],
        env={**os.environ, "TF_CONFIG": tf_config},
        capture_output=True,
        text=True,
        timeout=60,
    )


def _tf_config(address: str, job: str) -> str:
    cluster = {"worker": [address], "ps": ["127.0.0.1:1"], "evaluator": ["127.0.0.1:2"]}
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": 0}})


def test_taken_port_is_told_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = _run(_tf_config(f"127.0.0.1:{port}", "worker"))

    assert done.returncode != 0
    assert done.stderr.startswith(f"server: Port {port} is taken")
    assert done.stderr.count("\n") == 1


def test_wrong_tf_config_is_told_in_one_line():
    done = _run("{")

    assert done.returncode != 0
    assert done.stderr.startswith("server.py: `TF_CONFIG` must be JSON")
    assert done.stderr.count("\n") == 1


def test_serves_workers_and_ps_only():
    config = cluster_config.ClusterConfig({"worker": ["a:1"], "ps": ["b:1"]}, "evaluator", 0)

    with pytest.raises(ValueError, match=r"task type \(evaluator\) must be worker or ps"):
        server.start(config)


@pytest.mark.skipif(not hasattr(socket, "SO_BINDTODEVICE"), reason="Linux only")
def test_listener_is_bound_to_the_loopback_interface():
    with socket.create_server(("", 0)) as ours, socket.create_server(("", 0)) as other:
        server.keep_to_this_machine(ours.getsockname()[1])

        devices = [
            listener.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
            for listener in (ours, other)
        ]

    assert devices == [b"lo\0", b""]
