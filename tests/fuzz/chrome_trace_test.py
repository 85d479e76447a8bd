"""Trace JSON: whatever the text is, it is read or refused, in bounded memory."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import inputs
from tf_dynacomm.profiling import chrome_trace, step_events

_RECV = {"name": "w/_5", "kernel_type": "_Recv", "step_id": "7"}
_TRACE = {
    "stackFrames": {"3": {"name": "dense/MatMul:MatMul"}},
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "h /host:CPU"}},
        {"ph": "X", "pid": 1, "tid": 5, "name": "ExecutorState::Process", "ts": 0, "dur": 90,
         "args": {"id": "7"}},
        {"ph": "X", "pid": 1, "tid": 5, "name": "MatMul", "ts": 3, "dur": 2.5, "sf": 3},
        {"ph": "X", "pid": 1, "tid": 5, "name": "a:_Send", "ts": 7, "dur": 1, "args": {"key": "k"}},
        {"ph": "X", "pid": 1, "tid": 6, "name": "ExecutorState::ProcessAsync::Start", "ts": 4,
         "args": _RECV},
        {"ph": "X", "pid": 1, "tid": 6, "name": "ExecutorState::ProcessAsync::Done", "ts": 9,
         "args": _RECV},
    ],
}  # fmt: skip


def _read(text: str) -> list[step_events.HostSteps] | None:
    hosts = inputs.read_or_refused(chrome_trace.hosts, io.StringIO(text))
    return None if hosts is None else [step_events.collect(t) for t in hosts.values()]


def test_what_is_altered_below_can_be_read_as_it_is():
    (host,) = _read(json.dumps(_TRACE))
    assert list(host.steps) == [7]


@inputs.fuzz
@given(st.text() | inputs.JSON.map(json.dumps))
def test_any_text_is_read_or_refused(text):
    _read(text)


@inputs.fuzz
@given(inputs.altered(_TRACE), st.booleans())
def test_altered_events_are_read_or_refused(content, bare):
    _read(json.dumps(content.get("traceEvents") if bare else content))


def test_a_trace_cut_anywhere_is_refused():
    text = json.dumps(_TRACE)
    assert not any(_read(text[:size]) for size in range(len(text)))


def test_a_trace_with_any_bit_flipped_is_read_or_refused():
    for data in inputs.every_flip(json.dumps(_TRACE).encode()):
        _read(data.decode(errors="replace"))


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"traceEvents":[{"args":', '[{"a":['])
def test_deep_nesting_is_refused(opening):
    assert _read(opening * 200_000) is None
    assert _read('{"traceEvents": [' + opening * 200_000) is None


@pytest.mark.parametrize("time", ["NaN", "-Infinity", "1e999", "9" * 400, "9" * 5000, "[]"])
def test_times_that_are_no_numbers_are_refused(time):
    text = json.dumps(_TRACE)
    assert _read(text.replace('"ts": 3', f'"ts": {time}')) is None
    assert _read(text.replace('"dur": 2.5', f'"dur": {time}')) is None


class _Endless(io.TextIOBase):
    """A text that goes on for ever, as a packed file of a few bytes nearly can."""

    def __init__(self, start: str, part: str):
        self._parts = [start]
        self._part = part

    def read(self, size: int = -1) -> str:
        return self._parts.pop() if self._parts else self._part * (size // len(self._part))


@pytest.mark.parametrize("start", ['{"a": "', '{"stackFrames": {"1": "', "[1", '["'])
def test_a_value_without_end_is_refused_in_bounded_memory(monkeypatch, start):
    monkeypatch.setattr(chrome_trace, "_MAX_VALUE_CHARACTERS", 1 << 22)
    with (
        inputs.memory_below(64 << 20),
        pytest.raises(ValueError, match=r"value of more than|4300 digits"),
    ):
        chrome_trace.hosts(_Endless(start, "1"))


def test_events_without_end_are_refused_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(chrome_trace, "_MAX_EVENTS", 1 << 12)
    event = json.dumps(_TRACE["traceEvents"][2]) + ","
    with (
        inputs.memory_below(64 << 20),
        pytest.raises(ValueError, match=r"more than 4096 events: record for a shorter time"),
    ):
        chrome_trace.hosts(_Endless("[", event))
