import socket

import pytest

from tf_dynacomm.profiling import capture, profiler_service, trace


@pytest.fixture
def dead_address():
    """An address at which nobody answers."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


def _space(begin_ns):
    space = profiler_service.XSpace()
    plane = space.planes.add(name="/host:CPU")
    plane.lines.add(timestamp_ns=begin_ns)
    return space


def _answers(monkeypatch, **answers):
    monkeypatch.setattr(profiler_service, "profile", lambda addresses, *_: answers)


_TASKS = capture.Tasks(workers=["w0", "w1"], ps=["p0"])


def test_a_dead_profiler_is_named(dead_address):
    tasks = capture.Tasks(workers=[dead_address], ps=[dead_address])
    with pytest.raises(trace.TraceError, match=f"The profiler of {dead_address} gave no trace"):
        capture.capture(tasks, 0.01)


def test_hosts_are_sorted_by_task(monkeypatch):
    _answers(monkeypatch, w0=_space(1), w1=_space(1), p0=_space(1))
    captured = capture.capture(_TASKS, 0.01)
    assert {i: h.host for i, h in captured.workers.items()} == {0: "w0", 1: "w1"}
    assert captured.ps["ps0"].host == "p0"


def test_a_worker_that_does_not_answer_is_left_out(monkeypatch):
    _answers(monkeypatch, w0=profiler_service.ServiceError("gone"), w1=_space(1), p0=_space(1))
    assert list(capture.capture(_TASKS, 0.01).workers) == [1]


def test_a_ps_that_does_not_answer_is_an_error(monkeypatch):
    gone = profiler_service.ServiceError("UNAVAILABLE: gone")
    _answers(monkeypatch, w0=_space(1), w1=_space(1), p0=gone)
    with pytest.raises(trace.TraceError, match=r"The profiler of p0 gave no trace \(UNAVAILABLE"):
        capture.capture(_TASKS, 0.01)


def test_a_kept_trace_is_laid_out_for_the_profile_plugin(monkeypatch, tmp_path):
    _answers(monkeypatch, w0=_space(1), w1=_space(1), p0=_space(1))
    capture.capture(_TASKS, 0.01, tmp_path)
    files = sorted(f.name for f in tmp_path.glob("plugins/profile/*/*"))
    assert files == ["p0.xplane.pb", "w0.xplane.pb", "w1.xplane.pb"]
    assert len(trace.read(trace.run_files(tmp_path))) == 3


def test_a_logdir_that_cannot_be_written_does_no_harm(monkeypatch, tmp_path):
    _answers(monkeypatch, w0=_space(1), w1=_space(1), p0=_space(1))
    (tmp_path / "file").touch()
    assert capture.capture(_TASKS, 0.01, tmp_path / "file").workers
