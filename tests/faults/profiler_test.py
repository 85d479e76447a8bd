"""Profilers, traces and folders that fail: the plan stays, one warning says why, steps go on."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
from unittest import mock

import pytest

import tf_dynacomm
from tests.faults import runs
from tf_dynacomm import planner
from tf_dynacomm.profiling import capture, profiler_service

pytestmark = pytest.mark.cluster


@contextlib.contextmanager
def _profilers_at(run, address):
    """Lets the profilers of all tasks be looked for at one address."""
    tasks = capture.Tasks((address, address), (address,))
    with mock.patch.object(type(run.strategy), "tasks", tasks):
        yield


@pytest.fixture
def run(cluster):
    return runs.Run(cluster, stock=False)


@pytest.fixture
def short_traces(monkeypatch):
    """Lets traces be short, even the first, which has the time of cold steps to go by."""
    monkeypatch.setattr(planner, "_MIN_CAPTURE_S", 0.05)
    monkeypatch.setattr(planner, "_MAX_CAPTURE_S", 0.1)


@pytest.fixture
def impatient(short_traces, monkeypatch):
    """Lets traces be given up early too."""
    monkeypatch.setattr(capture, "_TIMEOUT_S", 0.1)
    monkeypatch.setattr(capture, "_RETRY_AFTER_S", 0.01)


@pytest.fixture
def silent_address():
    """Accepts calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed_address():
    with socket.socket() as held:  # Bound, so that nobody else takes it, and not listening.
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def _train(run, replan, until):
    run.train(lambda run: runs.wait_until(until), [replan, runs.Pauses()])


def _failed_twice(replan, words):
    """Whether two epochs have told of a failure in such words."""
    return lambda: sum(words in (report.reason or "") for report in replan.reports) >= 2


def _assert_plan_kept(run, caplog, reason):
    """Checks that training went on by its first plan; returns the warnings, which say why."""
    step = run.strategy.coordinator.training_step
    assert {time.plan for time in step.times.latest()} == {step.first_plan}
    assert run.steps_counted >= run.steps_asked
    warnings = [r.getMessage() for r in caplog.records if "plan is kept" in r.getMessage()]
    assert all(reason in warning for warning in warnings)
    return warnings


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["closed", "silent"])
def test_a_profiler_that_does_not_answer(request, run, caplog, kind):
    address, replan = request.getfixturevalue(f"{kind}_address"), tf_dynacomm.ReplanCallback()
    with _profilers_at(run, address):
        _train(run, replan, _failed_twice(replan, "profiler"))
    reason = f"The profiler of {address} gave no trace"
    assert len(_assert_plan_kept(run, caplog, reason)) == 1


def _halved(trace):
    return trace[: len(trace) // 2]


@pytest.mark.usefixtures("short_traces")
@pytest.mark.parametrize(
    ("damage", "reason"),
    [(_halved, "not a profiler trace, or a truncated one"), (lambda trace: b"", "step")],
    ids=["half", "empty"],
)
def test_a_trace_cut_short(run, caplog, monkeypatch, damage, reason):
    profile, replan = profiler_service.profile, tf_dynacomm.ReplanCallback()
    monkeypatch.setattr(
        profiler_service, "profile", lambda *args: {a: damage(t) for a, t in profile(*args).items()}
    )
    _train(run, replan, _failed_twice(replan, reason))
    assert _assert_plan_kept(run, caplog, reason)


def _measured(replan):
    return lambda: any(report.matched_share is not None for report in replan.reports)


@pytest.mark.skipif(os.geteuid() != 0, reason="A disk that is full is mounted by root only.")
def test_a_full_disk(run, caplog, tmp_path):
    disk = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)]
    if subprocess.run(disk, check=False).returncode != 0:
        pytest.skip("This container may not mount.")
    try:
        replan = tf_dynacomm.ReplanCallback(logdir=tmp_path, plan_dir=tmp_path / "plans")
        _train(run, replan, _measured(replan))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert f"cannot be written to {tmp_path}" in caplog.text
    assert run.steps_counted >= run.steps_asked


def test_a_logdir_that_is_deleted_again_and_again(run, tmp_path, monkeypatch):
    write_bytes, deleted = pathlib.Path.write_bytes, []

    def write(path, content):
        shutil.rmtree(tmp_path / "runs")
        deleted.append(path)
        return write_bytes(path, content)

    monkeypatch.setattr(pathlib.Path, "write_bytes", write)
    replan = tf_dynacomm.ReplanCallback(logdir=tmp_path / "runs")
    _train(run, replan, _measured(replan))
    assert deleted
    assert run.steps_counted >= run.steps_asked
