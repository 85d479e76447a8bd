import gzip
import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_dynacomm.profiling import chrome_trace, trace

_PROCESS_NAME = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "h_1 /host:CPU"}}
_PROCESS = {
    "ph": "X", "pid": 1, "tid": 5, "name": "ExecutorState::Process", "ts": 0, "dur": 90,
    "args": {"id": "-3609676489173919419"},
}  # fmt: skip
_STEP = -3609676489173919419


def _operation(at_us, **fields):
    return {"ph": "X", "pid": 1, "tid": 5, "name": "MatMul", "ts": at_us, "dur": 2.5, **fields}


def _hosts(content):
    return chrome_trace.hosts(io.StringIO(json.dumps(content)))


def _nodes(content):
    return [o.node for threads in _hosts(content).values() for t in threads for o in t.operations]


@pytest.mark.parametrize("frames_first", [True, False])
def test_full_names_stand_in_stack_frames_before_or_after_the_events(frames_first):
    frames = {"stackFrames": {"7": {"name": "dense/MatMul:MatMul"}}}
    events = {"traceEvents": [_PROCESS_NAME, _operation(3, sf=7), {}]}
    assert _nodes(frames | events if frames_first else events | frames) == ["dense/MatMul"]


def test_full_names_stand_in_arguments_or_are_the_names():
    long = _operation(1, args={"long_name": "a/MatMul:MatMul"})
    events = [_PROCESS_NAME, long, _operation(2, name="b/MatMul:MatMul")]
    assert _nodes({"traceEvents": events}) == ["a/MatMul", "b/MatMul"]
    assert _nodes(events) == ["a/MatMul", "b/MatMul"]


def test_devices_are_no_hosts():
    gpu = {**_PROCESS_NAME, "args": {"name": "h_1 /device:GPU:0"}}
    assert _hosts([gpu, _operation(1, name="a:MatMul")]) == {}


def test_a_step_is_read_as_from_the_profilers_own_form(tmp_path):
    recv = {"name": "w/_5", "kernel_type": "_Recv", "step_id": str(_STEP)}
    done = _operation(9, name="ExecutorState::ProcessAsync::Done", args=recv)
    start = _operation(4, name="ExecutorState::ProcessAsync::Start", args=recv)
    file = tmp_path / "any.trace.json.gz"
    events = [_PROCESS_NAME, _PROCESS, start, done, _operation(5, name="a:MatMul")]
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    (host,) = trace.read([file])
    assert host.host == "h_1"
    assert host.steps[_STEP].transfers == {
        "w": trace.Transfer("w", pytest.approx(4e-6), pytest.approx(9e-6))
    }
    (operation,) = host.steps[_STEP].operations
    assert operation.end_s - operation.start_s == pytest.approx(2.5e-6)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=9), _JSON, max_size=4), st.integers(1, 40), st.booleans())
def test_decoding_piece_by_piece_finds_the_same_operations(others, chunk, indented):
    others.pop("traceEvents", None)
    others.pop("stackFrames", None)
    events = [_PROCESS_NAME, *[_operation(i, name=f"n{i}:Op") for i in range(4)]]
    text = json.dumps({**others, "traceEvents": events, "z": 12}, indent=2 if indented else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chrome_trace, "_CHUNK_CHARACTERS", chunk)
        hosts = chrome_trace.hosts(io.StringIO(text))
    found = [o.node for t in itertools.chain(*hosts.values()) for o in t.operations]
    assert found == [f"n{i}" for i in range(4)]


@pytest.mark.parametrize(
    "text", ["", "x", "12", '{"traceEvents": 3}', '{"traceEvents": [3]}', '{"a" 3}', '["a"]']
)
def test_other_json_is_an_error(text):
    with pytest.raises(ValueError, match=r"expected|object|Expecting"):
        chrome_trace.hosts(io.StringIO(text))


@given(st.integers(1, 150))
def test_a_file_cut_short_is_an_error(cut):
    text = json.dumps({"traceEvents": [_PROCESS_NAME, _operation(1, name="a:MatMul")]})
    with pytest.raises(ValueError, match=r"expected|Expecting|Unterminated|delimiter"):
        chrome_trace.hosts(io.StringIO(text[:-cut]))
