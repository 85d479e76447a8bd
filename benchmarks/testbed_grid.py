"""All contenders on a grid: four models, three bandwidths, two latencies.

    python -m benchmarks.testbed_grid

Models are at 1/32 scale (VGG-19, which has several times the others' parameters, at 1/128) with
0.125 s of forward and 0.25 s of backward computation. Each latency of each model has a cluster of
its own, after which `results/testbed_grid.json` and `RESULTS.md` are written: what has been
measured is there if it is ended early, and cells can be measured apart.
"""

from __future__ import annotations

import itertools

from absl import flags

from benchmarks import testbed_results
from tf_dynacomm.bench.workload import Cell, Rate, Workload
from tf_dynacomm.tools import bench, command, environment, quantities

_MODELS = flags.DEFINE_list(
    "grid_models",
    [
        "emulated:resnet152:0.03125:0.125:0.25",
        "emulated:inception_v4:0.03125:0.125:0.25",
        "emulated:googlenet:0.03125:0.125:0.25",
        "emulated:vgg19:0.0078125:0.125:0.25",
    ],
    "The models.",
)
_RATES = flags.DEFINE_list("grid_rates", ["100mbit", "250mbit", "1gbit"], "The bandwidths.")
_LATENCIES_MS = flags.DEFINE_list("grid_latencies_ms", ["0", "10"], "Added latencies each way.")


def main(argv: list[str]) -> None:
    """Runs the grid."""
    del argv
    environment.load_tensorflow()
    from tf_dynacomm.bench import cells

    rates = [Rate(text, quantities.rate_bytes_per_s(text)) for text in _RATES.value]
    for model, latency_ms in itertools.product(_MODELS.value, _LATENCIES_MS.value):
        cell = Cell(Workload.parse(model), float(latency_ms) / 1e3, 1)
        testbed_results.keep_cells("grid", list(cells.run(cell, rates, bench.settings(), print)))


if __name__ == "__main__":
    command.run(main)
