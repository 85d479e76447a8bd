import dataclasses
import json

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm.plan import Plan


@st.composite
def _segments(draw, num_layers):
    ends = draw(st.sets(st.integers(1, num_layers))) | {num_layers}
    ordered = sorted(ends)
    return [(a + 1, b) for a, b in zip([0, *ordered[:-1]], ordered, strict=True)]


@st.composite
def _plans(draw):
    num_layers = draw(st.integers(1, 10))
    names = draw(st.none() | st.lists(st.text(), min_size=num_layers, max_size=num_layers))
    return Plan(
        draw(_segments(num_layers)),
        draw(st.just([]) | _segments(num_layers))[::-1],
        credit=draw(st.integers(1, 4)),
        names=names,
        scheduler=draw(st.none() | st.text()),
    )


def test_segments_become_tuples():
    plan = Plan([[1, 2], [3, 3]], [[2, 3], [1, 1]])
    assert plan.pull == ((1, 2), (3, 3))
    assert plan.push == ((2, 3), (1, 1))


def test_number_of_layers_is_the_last_one_pulled():
    assert Plan([(1, 4), (5, 7)], []).num_layers == 7


@pytest.mark.parametrize(
    ("pull", "message"),
    [
        ([], r"^`pull` \(empty\) must have at least one segment\.$"),
        ([(2, 3)], r"`pull` segment \(2, 3\) must begin at layer 1"),
        ([(1, 1), (3, 3)], r"`pull` segment \(3, 3\) must begin at layer 2"),
        ([(1, 2), (2, 3)], r"`pull` segment \(2, 3\) must begin at layer 3"),
        ([(1, 2), (3, 2)], r"`pull` segment \(3, 2\) must begin at layer 3 and not be empty"),
        ([(2, 2), (1, 1)], r"`pull` segment \(2, 2\) must begin at layer 1"),
        ([(1,)], r"`pull` segment \(\(1,\)\) must be a pair of layer numbers"),
        ([(1, 2, 3)], "must be a pair of layer numbers"),
        ([(1, 2.0)], "must be a pair of layer numbers"),
        ([(True, 2)], "must be a pair of layer numbers"),
        ([(1, np.int64(2))], "must be a pair of layer numbers"),
        ([1, 2], r"`pull` segment \(1\) must be a pair of layer numbers"),
        (["12"], "must be a pair of layer numbers"),
    ],
)
def test_pulls_must_cover_every_layer_once_in_order(pull, message):
    with pytest.raises(ValueError, match=message):
        Plan(pull, [])


@pytest.mark.parametrize(
    ("push", "message"),
    [
        ([(1, 2)], r"^`push` must end at layer 3, not 2\.$"),
        ([(1, 4)], r"^`push` must end at layer 3, not 4\.$"),
        ([(1, 2), (3, 3)], r"`push` segment \(3, 3\) must begin at layer 1"),
        ([(2, 3)], r"`push` segment \(2, 3\) must begin at layer 1"),
        ([(3, 3), (1, 1)], r"`push` segment \(3, 3\) must begin at layer 2"),
    ],
)
def test_pushes_must_cover_the_same_layers_in_reverse(push, message):
    with pytest.raises(ValueError, match=message):
        Plan([(1, 3)], push)


@pytest.mark.parametrize("credit", [0, -1, 1.0, True, None, "1"])
def test_credit_must_be_a_positive_whole_number(credit):
    with pytest.raises(ValueError, match=r"^`credit` .* must be a whole number, at least 1\.$"):
        Plan([(1, 1)], [(1, 1)], credit=credit)


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b", "c"], "ab", ["a", 1]])
def test_names_must_be_one_string_for_each_layer(names):
    with pytest.raises(ValueError, match=r"^`names` .* must be 2 strings, one for each layer\.$"):
        Plan([(1, 2)], [(1, 2)], names=names)


@pytest.mark.parametrize("field", dataclasses.fields(Plan))
def test_attributes_cannot_be_set(field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(Plan([(1, 1)], [(1, 1)]), field.name, None)


@hypothesis.given(_plans())
def test_scheduler_makes_no_difference(plan):
    other = dataclasses.replace(plan, scheduler="another")
    assert other == plan
    assert hash(other) == hash(plan)


def test_credit_and_names_make_a_difference():
    plan = Plan([(1, 1)], [(1, 1)])
    assert dataclasses.replace(plan, credit=2) != plan
    assert dataclasses.replace(plan, names=["a"]) != plan


@hypothesis.given(_plans())
def test_files_give_back_what_was_saved(tmp_path_factory, plan):
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    plan.save(path)
    loaded = Plan.load(path)
    assert loaded == plan
    assert loaded.scheduler == plan.scheduler


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("pull", [[1, 1], [3, 3]], r"`pull` segment \(3, 3\) must begin at layer 2"),
        ("pull", None, "not iterable"),
        ("push", 3, "not iterable"),
        ("credit", 0, "`credit`"),
        ("names", ["a"], "`names`"),
        ("names", 5, "not iterable"),
    ],
)
def test_error_about_a_file_names_it(tmp_path, key, value, message):
    path = tmp_path / "plan.json"
    Plan([(1, 3)], [(1, 3)]).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ValueError, match=rf"plan\.json: no valid plan: .*{message}"):
        Plan.load(path)


@pytest.mark.parametrize("field", dataclasses.fields(Plan))
def test_file_must_be_complete(tmp_path, field):
    path = tmp_path / "plan.json"
    Plan([(1, 3)], [(1, 3)]).save(path)
    content = json.loads(path.read_text())
    del content[field.name]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"plan\.json: no valid plan: '{field.name}'"):
        Plan.load(path)
