import os

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tf_dynacomm.profiling import trace

_US = 1_000_000  # Picoseconds.


def _space(*lines, plane="/host:CPU"):
    """A trace of threads: (timestamp in ns, [(event, offset in µs, duration in µs, stats), …])."""
    space = xplane_pb2.XSpace()
    added = space.planes.add(name=plane)
    for timestamp_ns, events in lines:
        line = added.lines.add(timestamp_ns=timestamp_ns)
        for name, offset_us, duration_us, stats in events:
            event = line.events.add(
                metadata_id=_id(added.event_metadata, name),
                offset_ps=offset_us * _US,
                duration_ps=duration_us * _US,
            )
            for key, value in stats.items():
                stat = event.stats.add(metadata_id=_id(added.stat_metadata, key))
                if isinstance(value, str):
                    stat.ref_value = _id(added.stat_metadata, value)
                else:
                    stat.int64_value = value
    return space


def _id(table, name):
    found = next((i for i, entry in table.items() if entry.name == name), None)
    if found is None:
        found = len(table) + 1
        table[found].id, table[found].name = found, name
    return found


def _process(step, offset_us, duration_us):
    return ("ExecutorState::Process", offset_us, duration_us, {"id": step})


def _recv(event, step, source, at_us):
    stats = {"name": source, "kernel_type": "_Recv", "step_id": step}
    return (f"ExecutorState::ProcessAsync::{event}", at_us, 0, stats)


def _steps(*lines):
    return trace.from_spaces({"host": _space(*lines)})[0].steps


def _write(path, space):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space.SerializeToString())
    return path


def test_an_operation_belongs_to_the_step_in_whose_process_it_lies():
    steps = _steps(
        (
            0,
            [
                _process(7, 0, 10), ("a:MatMul", 1, 2, {}), ("scope/b:Relu", 4, 5, {}),
                _process(8, 20, 10), ("a:MatMul", 21, 3, {}),
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
    events = [("before:Op", 0, 1, {}), _process(7, 5, 10), ("across:Op", 14, 2, {})]
    assert _steps((0, [*events, ("after:Op", 20, 1, {})])) == {}


def test_threads_are_read_apart_and_operations_put_in_order():
    steps = _steps(
        (0, [_process(7, 0, 10), ("late:Op", 5, 1, {})]),
        (0, [_process(7, 0, 10), ("early:Op", 2, 1, {})]),
    )
    assert [o.node for o in steps[7].operations] == ["early", "late"]


def test_events_of_the_executor_are_no_operations():
    events = [_process(7, 0, 9), ("ExecutorState::Other", 1, 1, {}), ("Plain", 2, 1, {})]
    assert _steps((0, events)) == {}


def test_a_transfer_has_its_request_and_its_arrival():
    steps = _steps(
        (0, [_recv("Start", 7, "pull/pack/_5", 2)]), (0, [_recv("Done", 7, "pull/pack/_5", 9)])
    )
    expected = trace.Transfer("pull/pack", pytest.approx(2e-6), pytest.approx(9e-6))
    assert steps[7].transfers == {"pull/pack": expected}


def test_a_transfer_that_was_cut_off_is_left_out():
    steps = _steps((0, [_recv("Start", 7, "a/_1", 2), _recv("Done", 7, "b/_2", 3)]))
    assert not any(step.transfers for step in steps.values())


def test_a_sent_tensor_is_known_by_the_node_that_made_it():
    send = ("push/pack/_3:_Send", 2, 3, {"from": "push/pack", "to": "receive"})
    steps = _steps((0, [_process(7, 0, 10), send]))
    assert steps[7].sent_s == {"push/pack": pytest.approx(2e-6)}
    assert steps[7].operations == []


def test_all_hosts_count_from_the_first_start():
    spaces = {
        "first": _space((1_000_000, [_process(7, 0, 10), ("a:Op", 1, 1, {})])),
        "second": _space((1_003_000, [_process(7, 0, 10), ("a:Op", 1, 1, {})])),
    }
    starts_s = [h.steps[7].operations[0].start_s for h in trace.from_spaces(spaces)]
    assert starts_s == pytest.approx([1e-6, 4e-6])


def test_an_epoch_of_nanoseconds_loses_no_precision():
    now_ns = 1_790_000_000_000_000_000
    steps = _steps((now_ns, [_process(7, 0, 10), ("a:Op", 1, 1, {})]))
    assert steps[7].operations[0].start_s == pytest.approx(1e-6, rel=1e-12)


@pytest.mark.parametrize("space", [xplane_pb2.XSpace(), _space((0, []), plane="/device:GPU:0")])
def test_a_host_without_its_plane_has_no_steps(space):
    assert trace.from_spaces({"idle": space}) == [trace.HostTrace("idle", {})]


def test_reading_names_the_hosts_after_their_files(tmp_path):
    files = [_write(tmp_path / f"{h}.xplane.pb", _space((0, []))) for h in ("chief", "worker_1")]
    assert [h.host for h in trace.read(files)] == ["chief", "worker_1"]


def test_a_truncated_file_is_named(tmp_path):
    whole = _space((0, [_process(7, 0, 10), ("a:Op", 1, 1, {})])).SerializeToString()
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


def _run(logdir, name, hosts=("a", "b")):
    folder = logdir / "plugins" / "profile" / name
    return [_write(folder / f"{host}.xplane.pb", xplane_pb2.XSpace()) for host in hosts]


def test_the_files_of_a_run_are_found_from_any_of_its_folders(tmp_path):
    _run(tmp_path, "2026_01_01_00_00_00")
    latest = _run(tmp_path, "2026_01_02_00_00_00")
    profile = tmp_path / "plugins" / "profile"
    for path in (tmp_path, profile, latest[0].parent):
        assert trace.run_files(path) == latest
    assert trace.run_files(os.fspath(latest[1])) == [latest[1]]


def test_a_run_without_files_is_passed_over(tmp_path):
    files = _run(tmp_path, "2026_01_01_00_00_00")
    _run(tmp_path, "2026_01_02_00_00_00", hosts=())
    (tmp_path / "plugins" / "profile" / "2026_01_03_00_00_00").mkdir()
    assert trace.run_files(tmp_path) == files


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_place_without_traces_is_named(tmp_path, name):
    with pytest.raises(trace.TraceError, match=f"{name}: no .xplane.pb file here"):
        trace.run_files(tmp_path / name)


def _begun(space, begin_ns):
    """Adds what a host tells of when it began to record."""
    plane = space.planes.add(name="Task Environment")
    plane.stats.add(
        metadata_id=_id(plane.stat_metadata, "profile_start_time"), uint64_value=begin_ns
    )
    return space


def test_hosts_that_began_at_different_moments_are_put_on_one_clock():
    early = _begun(_space((5, [_process(7, 0, 9), ("a:MatMul", 1, 1, {})])), 1_000_000)
    late = _begun(_space((5, [_process(7, 0, 9), ("b:MatMul", 1, 1, {})])), 4_000_000)
    hosts = trace.from_spaces({"early": early, "late": late})
    starts_s = [host.steps[7].operations[0].start_s for host in hosts]
    assert starts_s == [pytest.approx(1e-6), pytest.approx(1e-6 + 3e-3)]
