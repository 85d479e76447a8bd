"""Plans, costs and records of steps: whatever the file holds, it is read or refused, and named."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import inputs
from tf_dynacomm import costs as costs_lib
from tf_dynacomm import files
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.profiling import step_record

_STEP = json.loads((inputs.TRACES / "resnet_like" / step_record.NAME).read_text())
_PLAN = {
    "format": "tf_dynacomm.plan", "version": 1, "pull": [[1, 2], [3, 3]], "push": [[2, 3], [1, 1]],
    "credit": 2, "names": ["a", "b", "c"], "scheduler": "dynacomm",
}  # fmt: skip
_COSTS = {
    "format": "tf_dynacomm.costs", "version": 1, "names": ["a", "b"], "overhead_s": [0.1, 0.2],
    **{name: [0.5, 0.25] for name in costs_lib._VECTORS},
}  # fmt: skip
_READERS = {
    "plan": (plan_lib.Plan.load, _PLAN),
    "costs": (costs_lib.LayerCosts.load, _COSTS),
    "step": (lambda path: step_record.load(path.parent), _STEP),
}


@pytest.fixture(params=_READERS)
def reader(request):
    return _READERS[request.param]


@pytest.fixture
def path(tmp_path):
    return tmp_path / step_record.NAME


def _read(read, path, data: bytes):
    path.write_bytes(data)
    return inputs.read_or_refused(read, path, begins=f"{path}: ")


def test_what_is_altered_below_can_be_read_as_it_is(reader, path):
    read, content = reader
    assert _read(read, path, json.dumps(content).encode()) is not None


@inputs.fuzz
@given(st.data())
def test_altered_content_is_read_or_refused(reader, path, data):
    read, content = reader
    found = _read(read, path, json.dumps(data.draw(inputs.altered(content))).encode())
    if isinstance(found, step_record.StepRecord):
        assert all(layer.pull_bytes >= 0 for layer in found.layers)
        assert found.graph.live <= set(found.graph.nodes)
    elif found is not None:
        found.save(path)
        assert read(path) == found


@inputs.fuzz
@given(st.data())
def test_damaged_files_are_read_or_refused(reader, path, data):
    read, content = reader
    _read(read, path, data.draw(inputs.damaged(json.dumps(content).encode())))


@pytest.mark.parametrize("kind", ["plan", "costs"])
def test_files_cut_at_every_byte_are_refused(kind, path):
    read, content = _READERS[kind]
    for data in inputs.every_cut(json.dumps(content).encode()):
        assert _read(read, path, data) is None


@pytest.mark.parametrize("kind", ["plan", "costs"])
def test_files_with_any_bit_flipped_are_read_or_refused(kind, path):
    read, content = _READERS[kind]
    for data in inputs.every_flip(json.dumps(content).encode()):
        _read(read, path, data)


@pytest.mark.parametrize(
    "data",
    [b"", b"[" * 10**6, b'{"a":' * 10**6, b"9" * 5000, b"\xff\xfe", b"NaN", b"\x00" * 100],
    ids=["empty", "lists", "objects", "number", "utf16", "nan", "zeros"],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(reader, path, data):
    assert _read(reader[0], path, data) is None


def test_half_characters_are_refused_anywhere(reader, path):
    read, content = reader
    assert _read(read, path, json.dumps({**content, "more": ["\ud800"]}).encode()) is None


def test_a_file_of_another_version_is_refused(reader, path):
    read, content = reader
    for version in (0, 2, "1", None, [1]):
        assert _read(read, path, json.dumps({**content, "version": version}).encode()) is None


def test_a_file_of_another_kind_is_refused(reader, path):
    read, content = reader
    for _, other in _READERS.values():
        if other is not content:
            assert _read(read, path, json.dumps(other).encode()) is None


def test_a_file_without_end_is_refused_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(files, "_MAX_BYTES", 1 << 20)
    with (
        inputs.memory_below(4 << 20),
        pytest.raises(ValueError, match="/dev/zero: longer than the 1048576 bytes"),
    ):
        files.read("/dev/zero", "plan", 1)


@pytest.mark.parametrize("name", ["folder", "loop", "missing"])
def test_what_is_no_file_is_an_error_of_the_system(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match=name):
        files.read(tmp_path / name, "plan", 1)


@pytest.mark.parametrize("name", [*costs_lib._VECTORS, "overhead_s"])
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1, 10**400, "x", None, [1], {}])
def test_costs_that_are_no_times_are_refused(path, name, odd):
    assert (
        _read(costs_lib.LayerCosts.load, path, json.dumps({**_COSTS, name: [odd, 1]}).encode())
        is None
    )


@pytest.mark.parametrize("odd", [float("inf"), 3, ["dynacomm"], {}])
def test_a_scheduler_without_a_name_is_refused(path, odd):
    data = json.dumps({**_PLAN, "scheduler": odd}).encode()
    assert _read(plan_lib.Plan.load, path, data) is None


def test_a_record_whose_plan_is_for_another_step_is_refused(path):
    other = {**_STEP, "plans": {"0": {"pull": [[1, 3]], "push": [[1, 3]]}}}
    path.write_text(json.dumps(other))
    with pytest.raises(ValueError, match=r"the plan is for 3 layers, the step has 10"):
        step_record.load(path.parent)
