"""Clusters whose tasks and links can be disturbed, shared by one test process."""

from collections.abc import Iterator

import pytest

from tests.faults import scenarios
from tf_dynacomm.testbed import local_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[local_cluster.LocalCluster]:
    with scenarios.cluster_for(over_links=False) as running:
        yield running


@pytest.fixture(scope="session")
def cluster_over_links() -> Iterator[local_cluster.LocalCluster]:
    with scenarios.cluster_for(over_links=True) as running:
        yield running
