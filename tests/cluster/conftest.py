"""A real cluster for the tests, started when first asked for, and parts of it as smaller ones."""

import importlib
from collections.abc import Iterator

import pytest

from tf_dynacomm.testbed import local_cluster

pytest.register_assert_rewrite("tests.cluster.training")

from tests.cluster import training  # noqa: E402

ClusterSpec = dict[str, list[str]]


@pytest.fixture(scope="session")
def cluster_2w2p() -> Iterator[ClusterSpec]:
    with local_cluster.LocalCluster(workers=2, ps=2) as cluster:
        yield cluster.cluster_spec


@pytest.fixture(scope="session")
def cluster_1w2p(cluster_2w2p) -> ClusterSpec:
    return _part(cluster_2w2p, workers=1, ps=2)


@pytest.fixture(scope="session")
def cluster_1w1p(cluster_2w2p) -> ClusterSpec:
    return _part(cluster_2w2p, workers=1, ps=1)


def _part(cluster_spec: ClusterSpec, workers: int, ps: int) -> ClusterSpec:
    """A smaller cluster: a chief tells tasks who else is in its cluster, and joins those only."""
    return {"worker": cluster_spec["worker"][:workers], "ps": cluster_spec["ps"][:ps]}


@pytest.fixture(scope="session", params=["tf_keras", "keras"])
def keras_api(request):
    """Each Keras in turn, as a module."""
    return importlib.import_module(request.param)


@pytest.fixture(scope="module")
def ours(keras_api, program, cluster_1w2p):
    """What a module's `program` learns under our strategy, the plan changing on the way."""
    return training.train(keras_api, program, cluster_1w2p)


@pytest.fixture(scope="module")
def stock(keras_api, program, cluster_1w2p):
    """What it learns under stock's."""
    return training.train(keras_api, program, cluster_1w2p, stock=True)
