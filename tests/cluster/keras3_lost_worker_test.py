"""A Keras 3 training goes on when one of its workers is lost."""

import keras
import numpy as np
import pytest

from tests.cluster import keras3_programs, programs
from tf_dynacomm.testbed import local_cluster

pytestmark = pytest.mark.cluster

_STEPS, _LOST_AT = 60, 20


@pytest.fixture
def cluster():
    """A cluster of its own, since a worker of it is lost."""
    with local_cluster.LocalCluster(workers=2, ps=1) as cluster:
        yield cluster


def _from_workers():
    return {"x": keras3_programs.dataset().repeat(), "steps_per_epoch": _STEPS}


def _from_chief():
    images, labels = keras3_programs.data()
    return {"x": images, "y": labels, "batch_size": 1}


@pytest.mark.parametrize("data", [_from_workers, _from_chief])
def test_training_ends_on_the_other_worker(cluster, data):
    model = keras3_programs.build_teller(programs.make_strategy(cluster.cluster_spec))
    pids = []

    def lose(batch, logs):
        pids.append(int(logs["pid"]))
        if batch == _LOST_AT:
            cluster.kill("worker", 1)

    killing = keras.callbacks.LambdaCallback(on_train_batch_end=lose)
    history = model.fit(**data(), verbose=0, callbacks=[killing]).history
    assert len(pids) == _STEPS
    assert pids[-1] == cluster.pid("worker", 0)
    assert model.optimizer.iterations >= _STEPS
    assert np.isfinite(history["loss"]).all()
