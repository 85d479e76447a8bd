"""Tests of `dynacomm-train`, as its users run it.

The flags of two tools cannot live in one process, and so nothing of it is imported here.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

_DEADLINE_S = 240
# TensorFlow 2.20 tells that the chief has joined its cluster, whatever the log level.
_ON_STDERR = r"epoch |WARNING: All log messages before absl::InitializeLog|I0000 .*Started server"
_SMALL_CLUSTER = ("--workers=1", "--ps=1")


def _start(*arguments, tf_config=None) -> subprocess.Popen:
    command = [sys.executable, "-m", "tf_dynacomm.tools.train", *map(str, arguments)]
    print(f"$ TF_CONFIG={tf_config!r} {' '.join(command)}")
    env = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return subprocess.Popen(
        command,
        env=env if tf_config is None else {**env, "TF_CONFIG": tf_config},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(process: subprocess.Popen) -> subprocess.CompletedProcess:
    """Waits for the end, and prints all there is to know for the case that the test fails."""
    try:
        out, err = process.communicate(timeout=_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    print(f"exit code {process.returncode}\n--- stdout\n{out}\n--- stderr\n{err}")
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _run(*arguments, tf_config=None) -> subprocess.CompletedProcess:
    return _end(_start(*arguments, tf_config=tf_config))


def _assert_refused(done: subprocess.CompletedProcess, message: str) -> None:
    """Asserts that the command ended with one line that matches."""
    assert done.returncode != 0
    assert done.stdout == ""
    assert re.fullmatch(f"train.py: .*{message}.*\n", done.stderr)


def _free_addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def _tf_config(cluster, job, index=0) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


def _servers_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def _wait_until_ended(pids) -> None:
    deadline_s = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline_s, f"{pids} still run"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--model=lenet", "--model=lenet: .*one of <.*small_cnn"),
        ("--dataset=mnist", r"--dataset=mnist: .*one of <cifar10\|digits\|synthetic>"),
        ("--scheduler=best", "--scheduler=best: .*one of <.*dynacomm"),
        ("--strategy=mine", r"--strategy=mine: .*one of <dynacomm\|stock>"),
        ("--epochs=0", "--epochs=0: 0 is not a positive integer"),
        ("--workers=0", "--workers=0: "),
        ("--synthetic_shape=1,x,3", "--synthetic_shape=.* must be three positive numbers, such as"),
        ("--plan=nowhere.json", "--plan: .*nowhere.json.*: name a plan file"),
        ("--dataset=cifar10", "--data_dir: `data_dir` must name the folder"),
        ("--logdir=/dev/null", "--logdir: .*/dev/null.*: name a folder"),
        ("--checkpoint_dir=/dev/null/x", "--checkpoint_dir: .*/dev/null/x.*: name a folder"),
        ("--summary=/dev/null/x.json", "--summary: .*/dev/null.*: name a folder"),
        ("--summary=/dev", "--summary: /dev is a folder: name a file"),
        ("--steps=3", "Unknown command line flag 'steps'"),
    ],
)
def test_wrong_flags_are_told_in_one_line(argument, message):
    _assert_refused(_run(argument), message)


def test_missing_data_is_told_in_one_line(tmp_path):
    done = _run("--dataset=cifar10", f"--data_dir={tmp_path}")

    _assert_refused(done, r"--data_dir: .*/data_batch_1\.bin is missing: get cifar-10-binary")


def test_truncated_data_is_told_in_one_line(tmp_path):
    (tmp_path / "data_batch_1.bin").write_bytes(b"123")

    done = _run("--dataset=cifar10", f"--data_dir={tmp_path}")

    _assert_refused(done, r"--data_dir: .*/data_batch_1\.bin must have 30730000 bytes but has 3")


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        ("{", "`TF_CONFIG` must be JSON"),
        ("{}", "`TF_CONFIG` must have an object `cluster`"),
        (_tf_config({"worker": ["a:1"]}, "worker"), "at least one ps"),
        (_tf_config({"ps": ["a:1"]}, "ps"), "at least one worker"),
        (_tf_config({"worker": ["a:1"], "ps": ["b:1"]}, "ps", 1), r"index \(1\) must be"),
        (_tf_config({"worker": ["a:1"], "ps": ["b:1"]}, "evaluator"), "--checkpoint_dir must name"),
    ],
)
def test_wrong_tf_config_is_told_in_one_line(tf_config, message):
    _assert_refused(_run(tf_config=tf_config), message)


@pytest.mark.parametrize("job", ["chief", "worker", "ps"])
def test_taken_port_is_told_in_one_line(job):
    cluster = {name: _free_addresses(1) for name in ("chief", "worker", "ps")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = _run(tf_config=_tf_config({**cluster, job: [f"127.0.0.1:{port}"]}, job))

    assert done.returncode != 0
    assert f"TF_CONFIG: Port {port} is taken: stop" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_cluster_that_does_not_answer_is_told_in_one_line():
    worker, ps = _free_addresses(2)
    config = _tf_config({"worker": [worker], "ps": [ps]}, "chief")

    done = _run("--connect_timeout=1", tf_config=config)

    _assert_refused(done, f"--connect_timeout: No answer from {worker}, {ps} within 1 s: start")


@pytest.mark.cluster
def test_learns_the_digits_and_plans_from_traces(tmp_path):
    done = _run(
        *("--epochs=5", "--steps_per_epoch=200"),  # As `make train`.
        *(f"--summary={tmp_path}/summary.json", f"--logdir={tmp_path}"),
    )
    summary = json.loads((tmp_path / "summary.json").read_text())

    assert done.returncode == 0
    assert summary["test_accuracy"] >= 0.97
    assert any(epoch["matched_share"] for epoch in summary["epochs"])
    for pattern in ("costs-*.json", "plan-*.json", "plugins/profile/*/*.xplane.pb"):
        assert list(tmp_path.glob(pattern))


@pytest.mark.cluster
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_it_is_ended(signal_number):
    process = _start(*_SMALL_CLUSTER, "--epochs=1000", "--steps_per_epoch=20")
    assert "training" in process.stdout.readline()
    servers = _servers_of(process.pid)

    process.send_signal(signal_number)
    done = _end(process)

    assert len(servers) == 2
    _wait_until_ended(servers)
    assert done.returncode == 128 + signal_number
    assert "Traceback" not in done.stderr


@pytest.mark.cluster
def test_lost_ps_is_told_and_training_goes_on_from_the_checkpoint(tmp_path):
    arguments = (*_SMALL_CLUSTER, "--steps_per_epoch=40", f"--checkpoint_dir={tmp_path}")
    process = _start("--epochs=1000", *arguments)
    while "ckpt-2" not in str(os.listdir(tmp_path)):
        time.sleep(0.1)
        assert process.poll() is None
    os.kill(_servers_of(process.pid)[-1], signal.SIGKILL)
    lost = _end(process)

    resumed = _run("--epochs=1", *arguments, f"--summary={tmp_path}/summary.json")

    assert lost.returncode == 1
    told = re.search("train.py: .*job:ps.* does not answer any more: start it", lost.stderr)
    assert told  # TensorFlow's own lines come before.
    assert "Traceback" not in lost.stderr[told.end() :]
    assert resumed.returncode == 0
    assert json.loads((tmp_path / "summary.json").read_text())["epochs"] == []


@pytest.fixture(scope="module")
def training_of_stock(tmp_path_factory):
    """How each task of a `TF_CONFIG` cluster ended, by job, and what the chief summed up."""
    folder, jobs = tmp_path_factory.mktemp("stock"), ("chief", "worker", "ps", "evaluator")
    addresses = _free_addresses(len(jobs))
    cluster = {job: [address] for job, address in zip(jobs, addresses, strict=True)}
    arguments = ("--strategy=stock", "--epochs=2", "--steps_per_epoch=40", "--batch_size=16")
    files = (f"--checkpoint_dir={folder}", f"--summary={folder}/summary.json")
    started = {job: _start(*arguments, *files, tf_config=_tf_config(cluster, job)) for job in jobs}
    ended = {job: _end(started[job]) for job in ("chief", "evaluator")}
    for job in ("worker", "ps"):
        started[job].terminate()
        ended[job] = _end(started[job])
    return ended, json.loads((folder / "summary.json").read_text())


@pytest.mark.cluster
def test_every_role_of_a_tf_config_cluster(training_of_stock):
    ended, _ = training_of_stock

    assert (ended["chief"].returncode, ended["evaluator"].returncode) == (0, 0)
    assert "accuracy: " in ended["evaluator"].stdout
    for job in ("worker", "ps"):
        assert ended[job].returncode == 128 + signal.SIGTERM


@pytest.mark.cluster
def test_tells_about_each_epoch_and_keeps_tensorflow_quiet(training_of_stock):
    ended, summary = training_of_stock
    chief, epochs = ended["chief"], summary["epochs"]

    assert [epoch["epoch"] for epoch in epochs] == [1, 2]
    assert all(epoch["step_time_s"] > 0 for epoch in epochs)
    assert chief.stdout.count("  step      measured") == 2
    assert re.search(r"test accuracy \d+\.\d+%\n$", chief.stdout)
    assert all(re.match(_ON_STDERR, line) for line in chief.stderr.splitlines())
