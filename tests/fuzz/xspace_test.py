"""The profiler's own form: whatever the bytes are, they are read or refused, in bounded memory."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.fuzz import inputs
from tests.profiling import spaces
from tf_dynacomm.profiling import step_events, xspace

_PLANES, _LINES = 1, 3
_SEND = ("a:_Send", 1, 2, {"from": "a", "key": "/job:ps/task:0;"})
_SMALL = spaces.space(
    (7, [spaces.process(1, 0, 9), _SEND, ("b:MatMul", 3, 1, {})]),
    (8, [spaces.recv("Start", 1, "c/_1", 2), spaces.recv("Done", 1, "c/_1", 3)]),
).SerializeToString()
_RECORDED = [
    gzip.decompress((inputs.TRACES / "stock" / f"{host}_0.xplane.pb.gz").read_bytes())
    for host in ("worker", "ps")
]


def _read(data: bytes) -> step_events.HostSteps | None:
    return inputs.read_or_refused(
        lambda: step_events.collect(xspace.outline(data).threads(origin_ns=0))
    )


def _delimited(number: int, content: bytes, size: int | None = None) -> bytes:
    """A field of bytes, which may claim to be of another size than it is."""
    return bytes([number << 3 | 2]) + _varint(len(content) if size is None else size) + content


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


@inputs.fuzz
@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data):
    _read(data)


def test_a_trace_cut_at_every_byte_is_read_or_refused():
    assert list(map(_read, inputs.every_cut(_SMALL))).count(None) > len(_SMALL) - 10


def test_a_trace_with_any_bit_flipped_is_read_or_refused():
    for data in inputs.every_flip(_SMALL):
        _read(data)


@inputs.fuzz
@given(st.data(), st.sampled_from(_RECORDED))
def test_damaged_recorded_traces_are_read_or_refused(data, whole):
    _read(data.draw(inputs.damaged(whole)))


_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_NAMES = st.sampled_from(
    [
        "ExecutorState::Process", "ExecutorState::ProcessAsync::Start",
        "ExecutorState::ProcessAsync::Done", "a:MatMul", "a/_1:_Send", "id", "step_id", "name",
        "kernel_type", "_Recv", "key", "from", "profile_start_time", "",
    ]
)  # fmt: skip
_IDS = st.integers(-2, 6) | _INT64
_STAT = st.builds(
    lambda key, value: xplane_pb2.XStat(metadata_id=key, **value),
    _IDS,
    st.one_of(
        *(
            st.fixed_dictionaries({field: values})
            for field, values in {
                "double_value": st.floats(),
                "uint64_value": st.integers(0, (1 << 64) - 1),
                "int64_value": _INT64,
                "str_value": _NAMES,
                "bytes_value": st.binary(max_size=3),
                "ref_value": st.integers(0, 6),
            }.items()
        )
    ),
)
_EVENT = st.builds(
    xplane_pb2.XEvent,
    metadata_id=_IDS,
    offset_ps=_INT64,
    duration_ps=_INT64,
    stats=st.lists(_STAT, max_size=4),
)
_PLANE = st.builds(
    xplane_pb2.XPlane,
    name=st.sampled_from(["/host:CPU", "Task Environment"]),
    lines=st.lists(
        st.builds(xplane_pb2.XLine, timestamp_ns=_INT64, events=st.lists(_EVENT, max_size=5)),
        max_size=3,
    ),
    stats=st.lists(_STAT, max_size=2),
    event_metadata=st.dictionaries(
        _IDS, st.builds(xplane_pb2.XEventMetadata, name=_NAMES), max_size=6
    ),
    stat_metadata=st.dictionaries(
        _IDS, st.builds(xplane_pb2.XStatMetadata, name=_NAMES), max_size=6
    ),
)


@inputs.fuzz
@given(st.builds(xplane_pb2.XSpace, planes=st.lists(_PLANE, max_size=3)))
def test_strange_events_are_read_or_refused(space):
    _read(space.SerializeToString())


@pytest.mark.parametrize("size", [1 << 60, (1 << 64) - 1, 1 << 31])
@pytest.mark.parametrize("number", [_PLANES, 2])
def test_a_field_that_claims_to_be_huge_is_refused_at_once(number, size):
    with inputs.memory_below(1 << 16):
        assert _read(_delimited(number, b"abc", size)) is None
        assert _read(_delimited(_PLANES, _delimited(_LINES, b"abc", size))) is None


def test_a_number_of_too_many_bytes_is_refused():
    assert _read(b"\x08" + b"\xff" * 1000) is None


@pytest.mark.parametrize(
    "data",
    [
        _delimited(_PLANES, b"") * 100_000,
        _delimited(_PLANES, _delimited(_LINES, b"") * 100_000),
        _delimited(2, b"") * 100_000,
    ],
    ids=["planes", "threads", "errors"],
)
def test_more_parts_than_a_host_has_are_refused(data):
    with inputs.memory_below(100 << 20):
        assert _read(data) is None


def test_an_event_with_two_names_is_refused_or_read():
    space = xplane_pb2.XSpace.FromString(_SMALL)
    twice = space.planes[0].lines[0].events[1].SerializeToString() + b"\x08\x7f"
    line = _delimited(4, twice)
    plane = xplane_pb2.XPlane()
    plane.CopyFrom(space.planes[0])
    plane.ClearField("lines")
    _read(_delimited(_PLANES, plane.SerializeToString() + _delimited(_LINES, line)))
