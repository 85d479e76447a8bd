"""Tests of `tf_dynacomm.cluster_config`."""

import json
import socket

import pytest

from tf_dynacomm import cluster_config

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


def _config(cluster=CLUSTER, **task) -> cluster_config.ClusterConfig:
    return cluster_config.ClusterConfig.from_tf_config(
        json.dumps({"cluster": cluster, "task": task})
    )


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def silent_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return _address(server)


def _address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("job", "index", "address"),
    [("chief", 0, "a:1"), ("worker", 1, "c:1"), ("ps", 0, "d:1"), ("evaluator", 0, None)],
)
def test_knows_its_task(job, index, address):
    config = _config(type=job, index=index)

    assert (config.job, config.task, config.address) == (job, index, address)


def test_chief_needs_no_address():
    assert _config({"worker": ["a:1"], "ps": ["b:1"]}, type="chief", index=0).address is None


def test_evaluators_are_no_part_of_training():
    config = _config({**CLUSTER, "evaluator": ["e:1"]}, type="chief", index=0)

    assert config.training_cluster == CLUSTER


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be JSON"),
        ('{"cluster": ', "must be JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "must have an object `cluster`"),
        ('{"cluster": []}', "must have an object `cluster`"),
    ],
)
def test_form_is_checked(text, message):
    with pytest.raises(ValueError, match=f"`TF_CONFIG`.* {message}"):
        cluster_config.ClusterConfig.from_tf_config(text)


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"worker": ["a:1"]}, "at least one ps"),
        ({"worker": [], "ps": ["a:1"]}, "at least one worker"),
        ({"worker": ["a:1"], "ps": ["b:1"], "boss": ["c:1"]}, r"job \(boss\) must be one of chief"),
        ({"worker": "a:1", "ps": ["b:1"]}, "addresses of worker"),
        ({"worker": ["a"], "ps": ["b:1"]}, "addresses of worker"),
        ({"worker": ["a:1"], "ps": ["b:70000"]}, "addresses of ps"),
    ],
)
def test_cluster_is_checked(cluster, message):
    with pytest.raises(ValueError, match=message):
        _config(cluster, type="worker", index=0)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"type": "worker", "index": 2}, r"index \(2\) must be from 0 to 1 for worker"),
        ({"type": "worker", "index": -1}, r"index \(-1\) must be"),
        ({"type": "chief", "index": 1}, r"index \(1\) must be from 0 to 0 for chief"),
        ({"type": "ps", "index": "0"}, r"index \(0\) must be"),
        ({"type": "boss", "index": 0}, r"type \(boss\) must be one of chief"),
    ],
)
def test_task_is_checked(task, message):
    with pytest.raises(ValueError, match=message):
        _config(**task)


def test_task_is_required():
    with pytest.raises(ValueError, match="must have an object `task`"):
        cluster_config.ClusterConfig.from_tf_config(json.dumps({"cluster": CLUSTER}))


def test_waiting_ends_when_all_answer(listener):
    lines = []

    cluster_config.wait_for_cluster([_address(listener)], timeout_s=0, report=lines.append)

    assert not lines


def test_waiting_gives_up_and_names_who_is_silent(listener, silent_address):
    with pytest.raises(TimeoutError, match=f"No answer from {silent_address} within 0 s"):
        cluster_config.wait_for_cluster([_address(listener), silent_address], timeout_s=0)


def test_waiting_reports_who_is_silent(silent_address, monkeypatch):
    monkeypatch.setattr(cluster_config, "_REPORT_INTERVAL_S", 0.1)
    lines = []

    with pytest.raises(TimeoutError):
        cluster_config.wait_for_cluster([silent_address], timeout_s=0.5, report=lines.append)

    assert lines
    assert all(silent_address in line for line in lines)


def test_late_server_is_waited_for(silent_address, monkeypatch):
    port = int(silent_address.rpartition(":")[2])
    servers = []
    monkeypatch.setattr(cluster_config, "_REPORT_INTERVAL_S", 0.0)

    def start(line):
        if not servers:
            servers.append(socket.create_server(("127.0.0.1", port)))

    cluster_config.wait_for_cluster([silent_address], timeout_s=60, report=start)

    servers[0].close()


def test_free_port_is_free(silent_address):
    cluster_config.check_port_is_free(silent_address)


def test_taken_port_is_named(listener):
    address = _address(listener)

    with pytest.raises(OSError, match=f"Port {address.rpartition(':')[2]} is taken: stop"):
        cluster_config.check_port_is_free(address)
