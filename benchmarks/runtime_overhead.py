"""Measures what planning costs the training of a deep net: tracing, memory, and changing plans.

    python -m benchmarks.runtime_overhead

Trains ResNet-152 on a local cluster by stock and by `DynaCommStrategy` in turn, each in a process
of its own. Writes `RUNTIME_OVERHEAD.md` and `results/runtime_overhead.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

from benchmarks import results
from tf_dynacomm import DynaCommStrategy, Plan

_ROUNDS = 3
_STEPS = 120
_LOAD_AT, _SWITCH_WITHOUT_LOAD_AT = 40, 90
_KEPT = 4
_INTRODUCTION = f"""\
ResNet-152 of tf_keras on images of 32 by 32, batch size 4, one worker and one parameter server on
loopback; {_STEPS} steps. Stock and DynaCommStrategy in turn, each with processes of its own;
medians over the rounds ({_ROUNDS})."""


def _train(as_stock: bool) -> dict[str, float]:
    """Trains once; returns what it took."""
    import tensorflow as tf
    import tf_keras

    from tf_dynacomm.testbed import local_cluster

    def dataset_fn(context):
        del context
        random = np.random.default_rng(0)
        data = random.random((64, 32, 32, 3), np.float32), random.integers(0, 10, 64)
        return tf.data.Dataset.from_tensor_slices(data).repeat().batch(4)

    kind = tf.distribute.ParameterServerStrategy if as_stock else DynaCommStrategy
    with local_cluster.LocalCluster(workers=1, ps=1) as cluster:
        strategy = kind(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec(cluster.cluster_spec), rpc_layer="grpc"
            )
        )
        with strategy.scope():
            model = tf_keras.applications.ResNet152(
                weights=None, input_shape=(32, 32, 3), classes=10
            )
            model.compile("sgd", "sparse_categorical_crossentropy")
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        traced_s = _time_calls(coordinator, "schedule")
        changes = None if as_stock else _Changes(strategy, cluster.pid("ps", 0))
        creator = tf_keras.utils.experimental.DatasetCreator(dataset_fn)
        model.fit(creator, epochs=1, steps_per_epoch=_STEPS, verbose=0)
        found = {"trace_s": traced_s[0], "worker_mib": _peak_mib(cluster.pid("worker", 0))}
        return found | (changes.report() if changes else {})


def _time_calls(owner, name: str) -> list[float]:
    """Makes a method time its calls; returns the list that the seconds go to."""
    method, times_s = getattr(owner, name), []

    def timed(*args, **kwargs):
        start_s = time.perf_counter()
        result = method(*args, **kwargs)
        times_s.append(time.perf_counter() - start_s)
        return result

    setattr(owner, name, timed)
    return times_s


def _peak_mib(pid: int | str, field: str = "VmHWM") -> float:
    """A process's memory in MiB, at its peak or (`VmRSS`) now."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


class _Changes:
    """Changes plans while a training runs: first to one that was loaded before, then to one not."""

    def __init__(self, strategy: DynaCommStrategy, ps_pid: int):
        self._ps_pid = ps_pid
        self._coordinator = strategy.coordinator
        self._found: dict[str, float] = {}
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def report(self) -> dict[str, float]:
        """What it took."""
        self._thread.join()
        return self._found

    def _work(self) -> None:
        self._wait(_LOAD_AT)
        step = self._coordinator.training_step
        plan = _cut(step, 2)
        undisturbed_s = time.perf_counter()
        before, start_s = self._coordinator.steps_finished, time.perf_counter()
        step.load(plan, 0, 60.0, threading.Event())
        self._found["load_s"] = time.perf_counter() - start_s
        self._found["steps_while_loading"] = self._coordinator.steps_finished - before
        loaded_s = time.perf_counter()
        step.set_plan(plan)
        self._wait(_SWITCH_WITHOUT_LOAD_AT)
        step.forget_unused()
        ps_before = _peak_mib(self._ps_pid, "VmRSS")
        step.set_plan(_cut(step, 3))
        cold_s = time.perf_counter()
        self._wait(_STEPS - 5)
        self._found["ps_mib_a_plan"] = _peak_mib(self._ps_pid, "VmRSS") - ps_before
        self._found["median_s"] = float(np.median(step.intervals_s()))
        self._found["gap_without"] = self._gap(step, undisturbed_s, before=25)
        self._found["gap_loaded"] = self._gap(step, loaded_s)
        self._found["gap_not_loaded"] = self._gap(step, cold_s)
        self._found["largest_segment_mib"] = _largest_segment_mib(step)
        self._found["chief_mib_a_plan"] = _growth_mib(step)

    def _wait(self, steps: int) -> None:
        while self._coordinator.steps_finished < steps:
            time.sleep(0.01)

    def _gap(self, step, moment_s: float, before: int = 10) -> float:
        """The longest of 20 steps that begin so many before a moment, in median ones."""
        starts_s = np.array([t.start_s for t in step.times.latest()])
        near = np.searchsorted(starts_s, moment_s) + np.arange(-before, 20 - before)
        return float(np.diff(starts_s)[near].max() / self._found["median_s"])


def _cut(step, segments: int) -> Plan:
    """A plan of so many segments each way."""
    ends = np.linspace(0, len(step.layers), segments + 1).astype(int).tolist()
    pull = [(a + 1, b) for a, b in itertools.pairwise(ends)]
    return Plan(pull, pull[::-1], names=step.names)


def _largest_segment_mib(step) -> float:
    layers = step.layers
    return max(sum(x.pull_bytes for x in layers[a - 1 : b]) for a, b in _cut(step, 2).pull) / 2**20


def _growth_mib(step) -> float:
    before = _peak_mib("self", "VmRSS")
    for segments in range(4, 4 + _KEPT):
        step.prepare(_cut(step, segments))
    return (_peak_mib("self", "VmRSS") - before) / _KEPT


def _in_process(*args: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.runtime_overhead", *args]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _median(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(found[key] for found in rounds) for key in rounds[0]}


def tables(stock: dict[str, float], ours: dict[str, float]) -> list[results.Table]:
    """The figures, beside stock where stock has them."""
    beside = (
        ("first trace [s]", stock["trace_s"], ours["trace_s"], ours["trace_s"] / stock["trace_s"]),
        (
            "worker's peak memory [MiB]",
            stock["worker_mib"],
            ours["worker_mib"],
            ours["worker_mib"] / stock["worker_mib"],
        ),
    )
    alone = (
        ("median step [s]", ours["median_s"]),
        ("loading a new plan's function [s]", ours["load_s"]),
        ("steps finished meanwhile", ours["steps_while_loading"]),
        ("longest of 20 steps without a change [median steps]", ours["gap_without"]),
        ("longest step around the change, loaded before [median steps]", ours["gap_loaded"]),
        ("the same, not loaded before [median steps]", ours["gap_not_loaded"]),
        ("largest pull segment [MiB]", ours["largest_segment_mib"]),
        ("chief's growth for each plan kept [MiB]", ours["chief_mib_a_plan"]),
        ("parameter server's growth with the third plan [MiB]", ours["ps_mib_a_plan"]),
    )
    return [
        results.Table("Beside stock", ("", "stock", "ours", "ratio"), beside),
        results.Table("Changing plans", ("", "ours"), alone),
    ]


def main() -> None:
    """Measures and writes; with `--train`, trains once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", choices=["stock", "ours"])
    train = parser.parse_args().train
    if train:
        print(json.dumps(_train(train == "stock")))
        return
    stock, ours = [], []
    for _ in range(_ROUNDS):
        stock.append(_in_process("--train=stock"))
        ours.append(_in_process("--train=ours"))
    found = tables(_median(stock), _median(ours))
    results.write("runtime_overhead", "What planning costs a training", _INTRODUCTION, found)


if __name__ == "__main__":
    main()
