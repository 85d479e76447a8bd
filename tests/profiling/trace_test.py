import contextlib
import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.profiling import spaces
from tf_dynacomm.profiling import trace


def _steps(*lines):
    return _from_spaces({"host": spaces.space(*lines)})[0].steps


def _from_spaces(hosts):
    return trace.from_spaces({host: s.SerializeToString() for host, s in hosts.items()})


def _write(path, space):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space.SerializeToString())
    return path


def test_an_operation_belongs_to_the_step_in_whose_process_it_lies():
    steps = _steps(
        (
            0,
            [
                spaces.process(7, 0, 10), ("a:MatMul", 1, 2, {}), ("scope/b:Relu", 4, 5, {}),
                spaces.process(8, 20, 10), ("a:MatMul", 21, 3, {}),
            ],
        )
    )  # fmt: skip
    assert [(o.node, pytest.approx(o.start_s)) for o in steps[7].operations] == [
        ("a", 1e-6),
        ("scope/b", 4e-6),
    ]
    (operation,) = steps[8].operations
    assert operation.end_s - operation.start_s == pytest.approx(3e-6)


def test_operations_outside_all_steps_are_left_out():
    events = [("before:Op", 0, 1, {}), spaces.process(7, 5, 10), ("across:Op", 14, 2, {})]
    assert _steps((0, [*events, ("after:Op", 20, 1, {})])) == {}


def test_threads_are_read_apart_and_operations_put_in_order():
    steps = _steps(
        (0, [spaces.process(7, 0, 10), ("late:Op", 5, 1, {})]),
        (0, [spaces.process(7, 0, 10), ("early:Op", 2, 1, {})]),
    )
    assert [o.node for o in steps[7].operations] == ["early", "late"]


def test_events_of_the_executor_are_no_operations():
    events = [spaces.process(7, 0, 9), ("ExecutorState::Other", 1, 1, {}), ("Plain", 2, 1, {})]
    assert _steps((0, events)) == {}


def test_a_transfer_has_its_request_and_its_arrival():
    steps = _steps(
        (0, [spaces.recv("Start", 7, "pull/pack/_5", 2)]),
        (0, [spaces.recv("Done", 7, "pull/pack/_5", 9)]),
    )
    expected = trace.Transfer("pull/pack", pytest.approx(2e-6), pytest.approx(9e-6))
    assert steps[7].transfers == {"pull/pack": expected}


def test_a_transfer_that_was_cut_off_is_left_out():
    steps = _steps((0, [spaces.recv("Start", 7, "a/_1", 2), spaces.recv("Done", 7, "b/_2", 3)]))
    assert not any(step.transfers for step in steps.values())


def test_a_sent_tensor_is_known_by_the_node_that_made_it():
    send = ("push/pack/_3:_Send", 2, 3, {"from": "push/pack", "to": "receive"})
    steps = _steps((0, [spaces.process(7, 0, 10), send]))
    assert steps[7].sent_s == {"push/pack": pytest.approx(2e-6)}
    assert steps[7].operations == []


def test_all_hosts_count_from_the_first_start():
    hosts = {
        "first": spaces.space((1_000_000, [spaces.process(7, 0, 10), ("a:Op", 1, 1, {})])),
        "second": spaces.space((1_003_000, [spaces.process(7, 0, 10), ("a:Op", 1, 1, {})])),
    }
    starts_s = [h.steps[7].operations[0].start_s for h in _from_spaces(hosts)]
    assert starts_s == pytest.approx([1e-6, 4e-6])


def test_an_epoch_of_nanoseconds_loses_no_precision():
    now_ns = 1_790_000_000_000_000_000
    steps = _steps((now_ns, [spaces.process(7, 0, 10), ("a:Op", 1, 1, {})]))
    assert steps[7].operations[0].start_s == pytest.approx(1e-6, rel=1e-12)


@pytest.mark.parametrize(
    "space", [xplane_pb2.XSpace(), spaces.space((0, []), plane="/device:GPU:0")]
)
def test_a_host_without_its_plane_has_no_steps(space):
    assert _from_spaces({"idle": space}) == [trace.HostTrace("idle", {})]


def test_reading_names_the_hosts_after_their_files(tmp_path):
    files = [
        _write(tmp_path / f"{h}.xplane.pb", spaces.space((0, []))) for h in ("chief", "worker_1")
    ]
    assert [h.host for h in trace.read(files)] == ["chief", "worker_1"]


def test_a_truncated_file_is_named(tmp_path):
    whole = spaces.space((0, [spaces.process(7, 0, 10), ("a:Op", 1, 1, {})])).SerializeToString()
    file = tmp_path / "cut.xplane.pb"
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(trace.TraceError, match=r"cut\.xplane\.pb: not a profiler trace"):
        trace.read([file])


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n", b"hello", b'{"planes": []}'])
def test_a_file_of_another_kind_is_named(tmp_path, content):
    file = tmp_path / "photo.xplane.pb"
    file.write_bytes(content)
    with pytest.raises(trace.TraceError, match=r"photo\.xplane\.pb: not a profiler trace"):
        trace.read([file])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(trace.TraceError, match=r"gone\.xplane\.pb: No such file"):
        trace.read([tmp_path / "gone.xplane.pb"])


def _begun(space, begin_ns):
    """Adds what a host tells of when it began to record."""
    plane = space.planes.add(name="Task Environment")
    plane.stats.add(
        metadata_id=spaces.key_of(plane.stat_metadata, "profile_start_time"), uint64_value=begin_ns
    )
    return space


def test_hosts_that_began_at_different_moments_are_put_on_one_clock():
    early = _begun(spaces.space((5, [spaces.process(7, 0, 9), ("a:MatMul", 1, 1, {})])), 1_000_000)
    late = _begun(spaces.space((5, [spaces.process(7, 0, 9), ("b:MatMul", 1, 1, {})])), 4_000_000)
    hosts = _from_spaces({"early": early, "late": late})
    starts_s = [host.steps[7].operations[0].start_s for host in hosts]
    assert starts_s == [pytest.approx(1e-6), pytest.approx(1e-6 + 3e-3)]


def test_a_host_is_the_task_that_its_tensors_were_sent_from():
    send = ("a/_3:_Send", 2, 3, {"from": "a", "key": "/job:ps/replica:0/task:2/device:CPU:0;f00;x"})
    (host,) = _from_spaces({"host": spaces.space((0, [spaces.process(7, 0, 10), send]))})
    assert host.task == "ps:2"


def test_a_packed_file_is_read_as_the_file_itself(tmp_path):
    made = spaces.space((0, [spaces.process(7, 0, 9), ("a:MatMul", 1, 1, {})]))
    (plain,) = trace.read([_write(tmp_path / "a.xplane.pb", made)])
    packed = tmp_path / "a.xplane.pb.gz"
    packed.write_bytes(gzip.compress(made.SerializeToString()))
    assert trace.read([packed]) == [plain]


@pytest.mark.parametrize("name", ["a.xplane.pb.gz", "a.trace.json.gz"])
@pytest.mark.parametrize("cut", [0, 5, -6])
def test_a_packed_file_that_is_cut_short_is_named(tmp_path, name, cut):
    file = tmp_path / name
    file.write_bytes(gzip.compress(b'{"traceEvents": [{}, {}, {}]}' * 9)[:cut])
    with pytest.raises(trace.TraceError, match=re.escape(f"{name}: not a profiler trace")):
        trace.read([file])


def test_progress_adds_up_to_the_events_of_the_file(tmp_path):
    events = [spaces.process(7, 0, 10**6), *[("a:MatMul", i, 1, {}) for i in range(50_000)]]
    file = _write(tmp_path / "a.xplane.pb", spaces.space((0, events)))
    told = []
    trace.read([file], told.append)
    assert len(told) > 1
    assert 0.9 * file.stat().st_size < sum(told) <= file.stat().st_size


@given(st.binary(max_size=60))
def test_whatever_a_file_holds_nothing_but_a_trace_error_comes(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("any") / "any.xplane.pb"
    file.write_bytes(content)
    with contextlib.suppress(trace.TraceError):
        trace.read([file])


def test_of_a_large_trace_all_hosts_keep_the_same_steps(tmp_path, monkeypatch):
    events = [(spaces.process(i, 10 * i, 9), (f"n{i}:Op", 10 * i, 1, {})) for i in range(99)]
    made = spaces.space((0, [event for pair in events for event in pair]))
    files = [_write(tmp_path / f"{host}.xplane.pb", made) for host in "ab"]
    monkeypatch.setattr(trace, "_KEPT_BYTES", sum(f.stat().st_size for f in files) // 3 + 1)
    one, other = trace.read(files)
    assert one.steps == other.steps
    assert list(one.steps) == [*range(0, 99, 3)]
