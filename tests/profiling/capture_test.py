import socket

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tf_dynacomm.profiling import capture, profiler_service, trace, trace_files


@pytest.fixture
def dead_address():
    """An address at which nobody answers."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


def _space(begin_ns):
    space = xplane_pb2.XSpace()
    plane = space.planes.add(name="/host:CPU")
    plane.lines.add(timestamp_ns=begin_ns)
    return space.SerializeToString()


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
    assert len(trace.read(trace_files.run_files(tmp_path))) == 3


def test_a_logdir_that_cannot_be_written_does_no_harm(monkeypatch, tmp_path):
    _answers(monkeypatch, w0=_space(1), w1=_space(1), p0=_space(1))
    (tmp_path / "file").touch()
    assert capture.capture(_TASKS, 0.01, tmp_path / "file").workers


@pytest.fixture
def tries(monkeypatch):
    """Lets the profilers give scripted answers, one after the other; returns what was asked."""
    monkeypatch.setattr(capture, "_RETRY_AFTER_S", 0.01)
    asked = []

    def script(*answers):
        def profile(addresses, duration_s, timeout_s):
            asked.append((tuple(addresses), duration_s, timeout_s))
            return answers[len(asked) - 1]

        monkeypatch.setattr(profiler_service, "profile", profile)
        return asked

    return script


_GOOD = {"w0": _space(1), "w1": _space(1), "p0": _space(1)}
_GONE = _GOOD | {"p0": profiler_service.ServiceError("UNAVAILABLE: gone")}
_BUSY = _GOOD | {"w0": profiler_service.ServiceError("INTERNAL: Another profiling session active.")}


@pytest.mark.parametrize("first", [_GONE, _BUSY])
def test_what_fails_is_tried_once_more(tries, first):
    asked = tries(first, _GOOD)
    assert set(capture.capture(_TASKS, 0.01).workers) == {0, 1}
    assert len(asked) == 2


def test_a_session_of_someone_else_is_left_alone(tries):
    asked = tries(_BUSY, _BUSY)
    with pytest.raises(trace.TraceError, match="A profiler session of someone else runs on w0"):
        capture.capture(_TASKS, 0.01)
    assert len(asked) == 2


def test_both_tries_together_are_bounded_in_time(tries):
    asked = tries(_GONE, _GOOD)
    capture.capture(_TASKS, 3.0)
    (_, _, first_s), (_, _, second_s) = asked
    assert second_s < first_s <= 3.0 + capture._RETRY_AFTER_S + capture._TIMEOUT_S


def test_the_folder_of_a_kept_trace_is_told(tries, tmp_path):
    tries(_GOOD, _GOOD)
    assert capture.capture(_TASKS, 0.01).folder is None
    folder = capture.capture(_TASKS, 0.01, tmp_path).folder
    assert trace_files.run_files(folder) == trace_files.run_files(tmp_path)
