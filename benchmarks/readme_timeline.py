"""Draws the README's picture: a step of ResNet-152 under three schedules.

    python -m benchmarks.readme_timeline docs/timeline.png

The worker computes 3.5 TFLOP/s at batch size 32; its link has 10 Gbit/s, each transmission costs
2 ms besides its bytes.
"""

from __future__ import annotations

import sys

from tf_dynacomm import models, schedulers, timeline, timeline_plot

_SCHEDULES = {
    "Sequential: pull, compute, push": "sequential",
    "Layer by layer": "layer_by_layer",
    "DynaComm": "dynacomm",
}


def main(path: str) -> None:
    """Writes the picture."""
    costs = models.architecture("resnet152").costs(
        batch_size=32, rate_bytes_per_s=10e9 / 8, flops_per_s=3.5e12, overhead_s=2e-3
    )
    steps = {
        title: timeline.simulate(costs, schedulers.get(name)(costs))
        for title, name in _SCHEDULES.items()
    }
    timeline_plot.write(path, steps)


if __name__ == "__main__":
    main(*sys.argv[1:])
