"""What the strategy tells of a training step, on a real cluster."""

import keras
import numpy as np
import pytest

from tests.cluster import programs

pytestmark = pytest.mark.cluster


def test_a_training_step_is_explained(cluster_1w2p):
    strategy = programs.make_strategy(cluster_1w2p)
    with pytest.raises(RuntimeError, match="no training step to explain yet"):
        strategy.explain()
    for worker in (-1, 1, "a"):
        with pytest.raises(ValueError, match=r"`worker` .* must be an integer below 1"):
            strategy.explain(worker)
    model = programs.build_cnn(strategy)
    model.fit(programs.dataset_creator(), epochs=1, steps_per_epoch=2, verbose=0)
    told = strategy.explain()
    assert all(v.name.removesuffix(":0") in told for v in model.weights)
    assert "ps:0" in told
    assert "ps:1" in told


def test_a_keras_3_optimizer_lets_pushes_overlap(cluster_1w1p):
    strategy = programs.make_strategy(cluster_1w1p)
    with strategy.scope():
        layers = [keras.layers.Dense(size) for size in (32, 16, 2)]
        model = keras.Sequential([keras.layers.Input((12,)), *layers])
        model.compile("sgd", "mse")
    data = np.ones((16, 12), np.float32), np.ones((16, 2), np.float32)
    model.fit(*data, batch_size=8, epochs=1, verbose=0)
    assert len(strategy.coordinator.training_step.plan.push) > 1
    assert "Each gradient waits" not in strategy.explain()
