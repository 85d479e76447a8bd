"""Real clusters for the tests, started when first asked for and shared by one test process."""

from collections.abc import Iterator

import pytest

from tf_dynacomm.testbed import local_cluster

ClusterSpec = dict[str, list[str]]


def _running(workers: int, ps: int) -> Iterator[ClusterSpec]:
    with local_cluster.LocalCluster(workers=workers, ps=ps) as cluster:
        yield cluster.cluster_spec


@pytest.fixture(scope="session")
def cluster_1w1p() -> Iterator[ClusterSpec]:
    yield from _running(workers=1, ps=1)


@pytest.fixture(scope="session")
def cluster_1w2p() -> Iterator[ClusterSpec]:
    yield from _running(workers=1, ps=2)


@pytest.fixture(scope="session")
def cluster_2w2p() -> Iterator[ClusterSpec]:
    yield from _running(workers=2, ps=2)
