"""The paper's figure 10 on the real path: accuracy over epochs and time, by stock and by DynaComm.

    python -m benchmarks.testbed_accuracy

The small CNN learns handwritten digits on one worker behind a link of 20 Mbit/s, with the same seed
and the same order of the data. Writes `results/testbed_accuracy.json`, and `RESULTS.md`.
"""

from __future__ import annotations

import time

from absl import flags

from benchmarks import testbed_results
from tf_dynacomm import datasets, models
from tf_dynacomm.tools import command, environment

_EPOCHS = flags.DEFINE_integer("epochs", 6, "Epochs.", lower_bound=1)
_EPOCH_STEPS = flags.DEFINE_integer("epoch_steps", 50, "Steps in each epoch.", lower_bound=1)
_RATE_BYTES_PER_S = 20e6 / 8
_BATCH_SIZE = 32


def main(argv: list[str]) -> None:
    """Trains under one strategy after the other."""
    del argv
    environment.load_tensorflow()
    import tensorflow as tf

    import tf_dynacomm

    stock, ours = tf.distribute.ParameterServerStrategy, tf_dynacomm.DynaCommStrategy
    kept = _train("stock", stock, [])
    kept += _train("dynacomm", ours, [tf_dynacomm.ReplanCallback()])
    testbed_results.keep("accuracy", kept)


def _train(name: str, kind, callbacks: list) -> list[testbed_results.Point]:
    import tensorflow as tf
    import tf_keras

    from tf_dynacomm.testbed import links, local_cluster
    from tf_dynacomm.testbed.link import Link

    tf_keras.utils.set_random_seed(1)
    data = datasets.load("digits")
    link = Link(_RATE_BYTES_PER_S, _RATE_BYTES_PER_S)
    with local_cluster.LocalCluster(1, 1, links=links.Links(link)) as cluster:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster.cluster_spec), rpc_layer="grpc"
        )
        with kind(resolver).scope():
            model = models.build("small_cnn", data.image_shape, data.classes)
            loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(tf_keras.optimizers.Adam(), loss, metrics=["accuracy"])
        points: list[testbed_results.Point] = []
        start_s = time.perf_counter()

        def record(epoch: int, logs: dict[str, float]) -> None:
            elapsed_s = time.perf_counter() - start_s
            points.append(testbed_results.Point(name, epoch + 1, logs["accuracy"], elapsed_s))

        model.fit(
            tf_keras.utils.experimental.DatasetCreator(
                lambda context: data.train_batches(_BATCH_SIZE, seed=1)
            ),
            epochs=_EPOCHS.value,
            steps_per_epoch=_EPOCH_STEPS.value,
            callbacks=[*callbacks, tf_keras.callbacks.LambdaCallback(on_epoch_end=record)],
            verbose=0,
        )
    return points


if __name__ == "__main__":
    command.run(main)
