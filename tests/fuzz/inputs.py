"""What readers are fed with: damaged files, and content of any form.

`FUZZ_EXAMPLES=10000 pytest tests/fuzz` looks longer than the few seconds that it takes otherwise.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pathlib
import tracemalloc
from collections.abc import Callable, Iterator

import hypothesis
from hypothesis import strategies as st

TRACES = pathlib.Path(__file__).parents[2] / "testdata" / "traces"

fuzz = hypothesis.settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)

_ODD_NUMBERS = [float("nan"), float("inf"), -1, 0, 1 << 63, 10**400, 1e308, True]
_ODD_TEXTS = ["", "\ud800", "\0", "9" * 5000]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([*_ODD_NUMBERS, *_ODD_TEXTS]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@st.composite
def damaged(draw, whole: bytes) -> bytes:
    """A file that was cut short, in which bits were flipped, or a part is missing or doubled."""
    places = st.integers(0, len(whole))
    first, last = sorted((draw(places), draw(places)))
    match draw(st.sampled_from(["cut", "flip", "lose", "double", "insert"])):
        case "cut":
            return whole[:first]
        case "flip":
            content = bytearray(whole)
            for place in draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=8)):
                content[place] ^= 1 << draw(st.integers(0, 7))
            return bytes(content)
        case "lose":
            return whole[:first] + whole[last:]
        case "double":
            return whole[:last] + whole[first:]
        case _:
            return whole[:first] + draw(st.binary(max_size=20)) + whole[first:]


@st.composite
def altered(draw, content):
    """JSON content of which some value is another one, or not there."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        inside = content
        while True:
            keys = sorted(inside) if isinstance(inside, dict) else range(len(inside))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            deeper = isinstance(inside[key], dict | list) and inside[key]
            if deeper and draw(st.integers(0, 3)):
                inside = inside[key]
                continue
            if draw(st.booleans()):
                inside[key] = draw(JSON)
            else:
                del inside[key]
            break
    return content


def every_cut(whole: bytes) -> Iterator[bytes]:
    """The file cut short at every byte."""
    return (whole[:size] for size in range(len(whole)))


def every_flip(whole: bytes) -> Iterator[bytes]:
    """The file with one bit flipped, for every bit."""
    for place in range(len(whole)):
        for bit in range(8):
            yield whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]


def read_or_refused(read: Callable, *args, error=ValueError, begins: str = ""):
    """What a reader makes of its arguments; `None` if it refuses them with its own error.

    Any other error is the test's failure, as is a message that does not begin as it should.
    """
    try:
        return read(*args)
    except error as e:
        message = str(e)
    assert message.strip()
    assert message.startswith(begins)
    return None


@contextlib.contextmanager
def memory_below(limit_bytes: int) -> Iterator[None]:
    """Checks that Python's memory does not grow by more than a limit in between."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit_bytes
    finally:
        tracemalloc.stop()
