import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.profiling import spaces
from tf_dynacomm.profiling import step_events, xspace


def _threads(made: xplane_pb2.XSpace) -> list[step_events.Thread]:
    return list(xspace.outline(made.SerializeToString()).threads(origin_ns=0))


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 10**6), st.integers(0, 10**6))),
    st.integers(0, 10**9),
)
def test_every_event_is_read_as_the_messages_tell_it(events, timestamp_ns):
    made = spaces.space((timestamp_ns, [(f"n{n}:Op", a, d, {}) for n, a, d in events]))
    (thread,) = _threads(made)
    expected = [
        (f"n{n}", (timestamp_ns * 1000 + a * 10**6) * 1e-12, d * 1e-6) for n, a, d in events
    ]
    found = [(o.node, o.start_s, pytest.approx(o.end_s - o.start_s)) for o in thread.operations]
    assert found == expected


def test_long_threads_are_read_in_parts(monkeypatch):
    monkeypatch.setattr(xspace, "_CHUNK_BYTES", 50)
    events = [(f"n{i}:Op", i, 1, {}) for i in range(100)]
    (thread,) = _threads(spaces.space((0, events)))
    assert [o.node for o in thread.operations] == [f"n{i}" for i in range(100)]


def test_fields_of_later_versions_are_passed_over():
    made = spaces.space((0, [("a:Op", 1, 1, {})])).SerializeToString()
    future = b"\xfa\x01\x03new" + b"\x80\x02\x07" + b"\x8d\x02abcd" + b"\x91\x02abcdefgh"
    space = xspace.outline(made + future)
    assert [o.node for t in space.threads(0) for o in t.operations] == ["a"]


def test_what_the_profiler_had_to_say_is_kept():
    made = xplane_pb2.XSpace(errors=["something went wrong"])
    assert xspace.outline(made.SerializeToString()).errors == ("something went wrong",)


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05abc", b"\xff" * 11, b"\x0b", b"\x02\x01a", b"\x0a\x02\x12\x7f"]
)
def test_damaged_data_is_an_error(data):
    with pytest.raises(ValueError, match="byte"):
        xspace.outline(data)


@given(st.integers(1, 200))
def test_a_file_cut_anywhere_gives_no_event_that_was_not_there(cut):
    events = [(f"n{i}:Op", i, 1, {"id": i}) for i in range(5)]
    whole = spaces.space((7, events)).SerializeToString()
    try:
        threads = list(xspace.outline(whole[: -min(cut, len(whole))]).threads(0))
    except ValueError:
        return
    assert [o for t in threads for o in t.operations] in ([], _threads(spaces.space((7, events))))
