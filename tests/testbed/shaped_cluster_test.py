import pathlib

import pytest

from tf_dynacomm import cluster_config
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed import local_cluster
from tf_dynacomm.testbed.link import Link


@pytest.mark.cluster
def test_tasks_run_behind_links(how):
    links = links_lib.Links([Link(1e6, 1e6, latency_s=0.002)], how=how)

    with local_cluster.LocalCluster(links=links) as cluster:
        addresses = [task for tasks in cluster.cluster_spec.values() for task in tasks]
        assert len(set(addresses)) == 2
        assert all(map(cluster_config.listens, addresses))
        links.set_rate("worker", 0, up_bytes_per_s=2e6)
        pids = [cluster.pid("worker", 0), cluster.pid("ps", 0)]

    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


def test_cluster_that_cannot_be_connected_leaves_nothing():
    links = links_lib.Links([Link()] * 3, how="relay")

    with (
        pytest.raises(ValueError, match="for 2 workers, not for 3"),
        local_cluster.LocalCluster(workers=2, links=links),
    ):
        pass
