import copy
import dataclasses
import json
import pickle

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan

_VECTORS = ("pull_s", "forward_s", "backward_s", "push_s", "apply_s")


def _arguments(**changes):
    return {**{name: [0.1, 0.2, 0.3] for name in _VECTORS}, "overhead_s": 0.5, **changes}


@st.composite
def _costs(draw):
    count = draw(st.integers(1, 8))
    seconds = st.floats(0, 1e300)
    vectors = [draw(st.lists(seconds, min_size=count, max_size=count)) for _ in _VECTORS]
    names = draw(st.none() | st.lists(st.text(), min_size=count, max_size=count))
    overhead_s = draw(seconds | st.tuples(seconds, seconds))
    return LayerCosts(
        **dict(zip(_VECTORS, vectors, strict=True)), overhead_s=overhead_s, names=names
    )


def test_vectors_are_kept_in_layer_order():
    costs = LayerCosts([1, 2], [3, 4], [5, 6], [7, 8], 0.5, [9, 10], ["a", "b"])
    vectors = [getattr(costs, name).tolist() for name in _VECTORS]
    assert vectors == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    assert costs.names == ("a", "b")
    assert len(costs) == 2


def test_apply_costs_nothing_unless_given():
    assert LayerCosts(**_arguments(apply_s=None)).apply_s.tolist() == [0, 0, 0]


def test_layers_are_numbered_unless_named():
    assert LayerCosts(**_arguments()).names == ("layer 1", "layer 2", "layer 3")


def test_one_overhead_is_for_both_directions():
    costs = LayerCosts(**_arguments(overhead_s=0.5))
    assert (costs.overhead_pull_s, costs.overhead_push_s) == (0.5, 0.5)


def test_each_direction_may_have_its_overhead():
    costs = LayerCosts(**_arguments(overhead_s=(0.5, 0.25)))
    assert (costs.overhead_pull_s, costs.overhead_push_s) == (0.5, 0.25)


@pytest.mark.parametrize("vector", _VECTORS)
@pytest.mark.parametrize("value", [-1.0, -5e-324, np.nan, np.inf, -np.inf])
def test_error_names_the_vector_the_layer_and_the_value(vector, value):
    message = rf"^`{vector}` of layer 2 \({value}\) must be finite and not negative\.$"
    with pytest.raises(ValueError, match=message):
        LayerCosts(**_arguments(**{vector: [0.1, value, 0.3]}))


@pytest.mark.parametrize("vector", _VECTORS)
@pytest.mark.parametrize("values", [[0.1], [0.1] * 4, [[0.1] * 3], 0.1])
def test_vectors_must_be_of_one_length(vector, values):
    with pytest.raises(ValueError, match=r"must be a vector of as many layers as `pull_s`"):
        LayerCosts(**_arguments(**{vector: values}))


def test_there_must_be_a_layer():
    with pytest.raises(ValueError, match=r"`pull_s` \(shape \(0,\)\) must be .* one at least"):
        LayerCosts([], [], [], [], 0.1)


def test_costs_must_be_numbers():
    with pytest.raises(ValueError, match=r"^`forward_s` must be a vector of numbers: .*'x'"):
        LayerCosts(**_arguments(forward_s=[0.1, "x", 0.3]))


def test_sum_must_be_finite():
    with pytest.raises(ValueError, match=r"^`push_s` .* must have a finite sum\.$"):
        LayerCosts(**_arguments(push_s=[1e308, 1e308, 0]))


@pytest.mark.parametrize("overhead_s", [-0.1, np.nan, np.inf, (0.1, -0.1), (np.nan, 0.1)])
def test_overheads_must_be_finite_and_not_negative(overhead_s):
    with pytest.raises(ValueError, match=r"^`overhead_s` .* must be finite and not negative\.$"):
        LayerCosts(**_arguments(overhead_s=overhead_s))


@pytest.mark.parametrize("overhead_s", [[], [0.1], [0.1] * 3, [[0.1] * 2], None, "x"])
def test_overhead_must_be_a_number_or_a_pair(overhead_s):
    with pytest.raises(ValueError, match=r"^`overhead_s` "):
        LayerCosts(**_arguments(overhead_s=overhead_s))


@pytest.mark.parametrize("names", [["a"], list("abcd"), "abc", []])
def test_names_must_be_one_for_each_layer(names):
    with pytest.raises(ValueError, match=r"^`names` .* must be 3 strings, one for each layer\.$"):
        LayerCosts(**_arguments(names=names))


def test_names_must_be_strings():
    with pytest.raises(ValueError, match=r"^`names` entry \(1\) must be a string\.$"):
        LayerCosts(**_arguments(names=["a", 1, "c"]))


@pytest.mark.parametrize("vector", _VECTORS)
def test_vectors_cannot_be_written(vector):
    with pytest.raises(ValueError, match="read-only"):
        getattr(LayerCosts(**_arguments()), vector)[0] = 1.0


@pytest.mark.parametrize("name", [*_VECTORS, "overhead_s", "names"])
def test_attributes_cannot_be_set(name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(LayerCosts(**_arguments()), name, [1, 2, 3])


def test_later_changes_of_what_was_given_do_not_matter():
    given = np.array([0.1, 0.2, 0.3])
    costs = LayerCosts(**_arguments(pull_s=given))
    given[0] = 9.0
    assert costs.pull_s[0] == 0.1


@pytest.mark.parametrize("name", [*_VECTORS, "overhead_s", "names"])
def test_costs_that_differ_are_not_equal(name):
    changed = ["a", "b", "c"] if name == "names" else 7.0 if name == "overhead_s" else [7.0] * 3
    assert LayerCosts(**_arguments()) != LayerCosts(**_arguments(**{name: changed}))


def test_costs_do_not_equal_other_things():
    assert LayerCosts(**_arguments()) != "costs"


def test_one_vector_can_be_replaced():
    costs = dataclasses.replace(LayerCosts(**_arguments()), push_s=[7, 8, 9])
    assert costs == LayerCosts(**_arguments(push_s=[7, 8, 9]))


def test_repr_is_short():
    assert repr(LayerCosts(**_arguments())) == "LayerCosts(3 layers, 3 s in all)"


@hypothesis.given(_costs())
def test_copies_are_equal(costs):
    assert pickle.loads(pickle.dumps(costs)) == costs
    assert copy.deepcopy(costs) == costs


@hypothesis.given(_costs())
def test_files_give_back_what_was_saved(tmp_path_factory, costs):
    path = tmp_path_factory.mktemp("costs") / "costs.json"
    costs.save(path)
    assert LayerCosts.load(path) == costs


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("pull_s", [0.1, -1, 0.3], r"`pull_s` of layer 2 \(-1\.0\)"),
        ("pull_s", [0.1, float("nan"), 0.3], r"`pull_s` of layer 2 \(nan\)"),
        ("push_s", None, "`push_s`"),
        ("names", 3, "len"),
        ("overhead_s", {}, "`overhead_s`"),
    ],
)
def test_error_about_a_file_names_it(tmp_path, key, value, message):
    path = tmp_path / "costs.json"
    LayerCosts(**_arguments()).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ValueError, match=rf"costs\.json: no valid costs: .*{message}"):
        LayerCosts.load(path)


@pytest.mark.parametrize("key", [*_VECTORS, "overhead_s", "names"])
def test_file_must_be_complete(tmp_path, key):
    path = tmp_path / "costs.json"
    LayerCosts(**_arguments()).save(path)
    content = json.loads(path.read_text())
    del content[key]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"costs\.json: no valid costs: '{key}'"):
        LayerCosts.load(path)


def test_plan_file_holds_no_costs(tmp_path):
    path = tmp_path / "plan.json"
    Plan([(1, 1)], [(1, 1)]).save(path)
    with pytest.raises(ValueError, match=r"plan\.json: not a file of costs"):
        LayerCosts.load(path)
