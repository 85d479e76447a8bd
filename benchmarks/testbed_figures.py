"""The paper's figures on the real path, slower than the paper by a known factor.

    python -m benchmarks.testbed_figures --figure=5      # also 9 and 11

Layers hold 1/32 of the elements, and computation takes 1.25 times as long as on the paper's
testbed, as `benchmarks.paper` fits it; a link of 250 Mbit/s is then what 10 Gbit/s are there. Δt is
this machine's own.

Figure 5 stands for 5 to 8: four models at batch sizes 32 and 16, forward and backward in one step.
Figure 9 is ResNet-152 at other batch sizes and bandwidths. Figure 11 is ResNet-152 with 1 to 8
workers that share the PS's link. Writes `results/testbed_figure<N>.json`, and `RESULTS.md`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator

from absl import flags

from benchmarks import results, testbed_results
from tf_dynacomm import models
from tf_dynacomm.bench.workload import Cell, Rate, Workload
from tf_dynacomm.tools import bench, command, environment, quantities

_FIGURE = flags.DEFINE_enum("figure", "5", ["5", "9", "11"], "Which figure.")
_ONLY = flags.DEFINE_integer("only", None, "Only so many cells, to try it out.", lower_bound=1)

_SCALE, _SLOWER = 0.03125, 1.25
_RATE = "250mbit"  # 10 Gbit/s * scale / slower.
_MODELS = ("vgg19", "googlenet", "inception_v4", "resnet152")
_FLOPS_PER_MULTIPLY_ADD = 2

Case = tuple[str, str, int, float]
"""A model's specification, a rate, a number of workers, and the rate of the shared link."""


def model(name: str, batch_size: int) -> str:
    """Specifies a model with the computation that the paper's testbed is fitted to have."""
    constants = json.loads(results.picture_path("paper").with_suffix(".json").read_text())
    row = next(row for row in constants["tables"][0]["rows"] if row[0] == name)
    _, tera_per_s, backward_per_forward, _ = row
    multiply_adds = float(models.architecture(name).multiply_adds.sum())
    forward_s = multiply_adds * _FLOPS_PER_MULTIPLY_ADD * batch_size / (tera_per_s * 1e12)
    forward_s *= _SLOWER
    return f"emulated:{name}:{_SCALE}:{forward_s:.4f}:{forward_s * backward_per_forward:.4f}"


def cases(figure: str) -> Iterator[Case]:
    """The cells of a figure."""
    if figure == "5":
        for batch_size in (32, 16):
            yield from ((model(name, batch_size), _RATE, 1, math.inf) for name in _MODELS)
    elif figure == "9":
        yield from ((model("resnet152", size), _RATE, 1, math.inf) for size in (8, 16, 24, 32))
        for rate in ("25mbit", "125mbit", "500mbit"):
            yield model("resnet152", 32), rate, 1, math.inf
    else:
        shared = quantities.rate_bytes_per_s(_RATE)
        yield from ((model("resnet152", 32), _RATE, count, shared) for count in (1, 2, 4, 8))


def main(argv: list[str]) -> None:
    """Runs a figure's cells."""
    del argv
    environment.load_tensorflow()
    from tf_dynacomm.bench import cells

    for spec, rate, workers, shared in list(cases(_FIGURE.value))[: _ONLY.value]:
        settings = dataclasses.replace(bench.settings(), ps_bytes_per_s=shared)
        cell = Cell(Workload.parse(spec), 0.0, workers)
        rates = [Rate(rate, quantities.rate_bytes_per_s(rate))]
        measured = list(cells.run(cell, rates, settings, print))
        testbed_results.keep_cells(f"figure{_FIGURE.value}", measured)


if __name__ == "__main__":
    command.run(main)
