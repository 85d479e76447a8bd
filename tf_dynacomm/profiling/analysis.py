"""What a recorded run says of one worker, whatever it ran as and whether its step was saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tf_dynacomm import costs as costs_lib
from tf_dynacomm import plan as plan_lib
from tf_dynacomm.profiling import by_name, measure, measured_steps
from tf_dynacomm.profiling import run as run_lib
from tf_dynacomm.runtime import layers as layers_lib


@dataclasses.dataclass(frozen=True)
class Analysis:
    """A worker's part of a run.

    Attributes:
      worker: Its index.
      host: The host's name.
      plan: The plan that it followed; `None` as stock.
      layers: The step's layer table; `None` where only names are known, which is coarser.
      steps: Its whole steps, in order of time.
      measurement: What they cost.
    """

    worker: int
    host: str
    plan: plan_lib.Plan | None
    layers: Sequence[layers_lib.Layer] | None
    steps: Sequence[measured_steps.MeasuredStep]
    measurement: measure.Measurement

    @property
    def costs(self) -> costs_lib.LayerCosts:
        """What a step costs."""
        return self.measurement.costs


def analyse(run: run_lib.Run, worker: int) -> Analysis:
    """Reads a worker's steps and costs: with the step saved beside the trace, else by names.

    Raises:
      trace.TraceError: If the trace holds no whole step, or is too uncertain.
    """
    host, record = run.workers[worker], run.record
    if record is None:
        measurement, steps = by_name.measure_by_name(host, run.ps)
        return Analysis(worker, host.host, None, None, steps, measurement)
    plan = record.plans.get(worker)
    reader = measured_steps.StepReader(host, run.ps, record.graph, record.layers, plan)
    steps = reader.read()
    measurement = measure.of_steps(host.host, steps, record.layers, reader.offsets)
    return Analysis(worker, host.host, plan, record.layers, steps, measurement)
