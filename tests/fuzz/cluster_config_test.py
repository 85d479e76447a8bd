"""`TF_CONFIG`: whatever it holds, it is read or refused with the reason."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import inputs
from tf_dynacomm import cluster_config

_CONFIG = {
    "cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"], "ps": ["d:4"], "evaluator": ["e:5"]},
    "task": {"type": "worker", "index": 1},
}


def _read(text: str) -> cluster_config.ClusterConfig | None:
    parse = cluster_config.ClusterConfig.from_tf_config
    config = inputs.read_or_refused(parse, text, begins="`TF_CONFIG`")
    if config is not None:
        assert config.job in cluster_config.JOBS
        assert config.address is None or config.address in config.cluster[config.job]
    return config


@inputs.fuzz
@given(st.text() | inputs.JSON.map(json.dumps))
def test_any_text_is_read_or_refused(text):
    _read(text)


@inputs.fuzz
@given(inputs.altered(_CONFIG))
def test_altered_clusters_are_read_or_refused(config):
    _read(json.dumps(config))


def test_a_text_cut_anywhere_is_refused():
    text = json.dumps(_CONFIG)
    assert not any(map(_read, (text[:size] for size in range(len(text)))))


@pytest.mark.parametrize("text", ["[" * 10**6, '{"cluster":' * 10**6, "9" * 5000, "NaN", "\udc80"])
def test_other_text_is_refused(text):
    assert _read(text) is None


@pytest.mark.parametrize(
    "address",
    ["a:0", "a:65536", f"a:{'9' * 5000}", "a: 1", "a b:1", "a\n:1", "\0:1", "\ud800:1", ":1"],
)
def test_addresses_that_nobody_can_have_are_refused(address):
    cluster = {**_CONFIG["cluster"], "ps": [address]}
    assert _read(json.dumps({**_CONFIG, "cluster": cluster})) is None


@inputs.fuzz
@given(st.from_regex(cluster_config._ADDRESS, fullmatch=True).filter(lambda a: "." in a[:-7]))
def test_no_address_makes_asking_it_fail_otherwise(address):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_config.socket, "create_connection", _encoded)
        assert not cluster_config.listens(address)


def _encoded(address, timeout):
    """What `create_connection` does to a name before it asks for it, without asking."""
    address[0].encode("idna")
    raise OSError(timeout)
