"""Plans a running training step anew: capture → costs → plan, off the training thread."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
import time

import numpy as np
from absl import logging

from tf_dynacomm import plan as plan_lib
from tf_dynacomm import schedulers, timeline
from tf_dynacomm.profiling import capture, measure, trace
from tf_dynacomm.runtime import steps as steps_lib

_WARMUP_STEPS = 5
_TRACED_STEPS = 8
_MIN_CAPTURE_S = 0.1
_MAX_CAPTURE_S = 20.0
_POLL_S = 0.01
# Steps that fail for so long have ended the training, or it waits for a lost worker.
_FAILING_S = 5.0


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A plan made from a trace.

    Attributes:
      step: The step that was traced.
      current: The plan that was in force.
      plan: The plan proposed.
      measurement: The costs that it was made from, and how they were measured.
      outside_s: Seconds of a step that lie outside the model: from the arrival of its last push to
        the next step's first request.
    """

    step: steps_lib.Step
    current: plan_lib.Plan
    plan: plan_lib.Plan
    measurement: measure.Measurement
    outside_s: float

    def predicted_s(self, plan: plan_lib.Plan) -> float:
        """Predicted seconds of a step under a plan."""
        return timeline.simulate(self.measurement.costs, plan).iteration_s + self.outside_s


class Planner:
    """Makes proposals in a background thread, one at a time.

    Args:
      strategy: The strategy whose training step is planned.
      logdir: Where traces are kept; nowhere if `None`.
    """

    def __init__(self, strategy, logdir: pathlib.Path | None):
        self._strategy = strategy
        self._logdir = logdir
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._captured = threading.Event()
        self._outcome: Proposal | trace.TraceError | None = None

    def start(self) -> None:
        """Begins a proposal, unless one is being made or waits to be taken."""
        if self._thread is None:
            self._stop.clear()
            self._captured.clear()
            self._thread = threading.Thread(target=self._work, name="dynacomm-planner", daemon=True)
            self._thread.start()

    def take(self, wait_s: float) -> Proposal | trace.TraceError | None:
        """Returns the proposal or the reason why there is none; `None` if it is still being made.

        Args:
          wait_s: Seconds to wait for a proposal whose trace has been captured.
        """
        if self._thread is None:
            return None
        if self._captured.is_set():
            self._thread.join(wait_s)
        if self._thread.is_alive():
            return None
        self._thread = None
        outcome, self._outcome = self._outcome, None
        return outcome

    def stop(self) -> None:
        """Gives up what is being made, and waits until nothing of it is left running."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        try:
            step = self._warm_step()
            if step is not None:
                self._outcome = self._propose(step)
        except trace.TraceError as e:
            self._outcome = e
        except Exception as e:  # Whatever goes wrong in planning, training goes on.
            logging.exception("Planning failed.")
            self._outcome = trace.TraceError(f"Planning failed: {e!r}.")

    def _warm_step(self) -> steps_lib.Step | None:
        """The training step, once it has run a few times from now on; `None` when stopped."""
        coordinator = self._strategy.coordinator
        begun, failing_s = coordinator.steps_finished, 0.0
        while coordinator.steps_finished < begun + _WARMUP_STEPS:
            failing_s = failing_s + _POLL_S if coordinator.failing else 0.0
            if self._stop.wait(_POLL_S) or failing_s > _FAILING_S:
                return None
        return coordinator.training_step

    def _propose(self, step: steps_lib.Step) -> Proposal:
        current = step.plan
        if len(step.layers) == 1:
            raise trace.TraceError("The step has one layer only, so that there is nothing to cut.")
        if step.draws_seeded_numbers:
            raise trace.TraceError(
                "The step draws seeded random numbers (Dropout, say), whose sequence a new plan "
                "would start again."
            )
        interval_s = float(np.median(step.intervals_s()))
        duration_s = np.clip(_TRACED_STEPS * interval_s, _MIN_CAPTURE_S, _MAX_CAPTURE_S)
        began_s = time.perf_counter()
        captured = capture.capture(
            self._strategy.tasks, float(duration_s), self._logdir, self._captured
        )
        measurement = self._measure(captured, step, current)
        step.measured = measurement
        plan = schedulers.get(self._strategy.scheduler)(measurement.costs)
        step.prepare(plan)
        intervals_s = step.intervals_s(since_s=began_s)
        if not len(intervals_s):
            raise trace.TraceError("Training paused while the trace was taken.")
        outside_s = max(float(np.median(intervals_s)) - measurement.span_s, 0.0)
        return Proposal(step, current, plan, measurement, outside_s)

    def _measure(self, captured: capture.Capture, step, plan) -> measure.Measurement:
        found, errors = [], []
        for worker in captured.workers.values():
            try:
                found.append(
                    measure.measure(
                        worker, captured.ps, step.graph, step.layers, plan, step.measured
                    )
                )
            except trace.TraceError as e:
                errors.append(e)
        if not found:
            raise errors[0]
        return measure.mean(found)
