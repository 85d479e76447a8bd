"""Plans a running training step anew: capture → costs → plans, off the training thread."""

from __future__ import annotations

import collections
import functools
import pathlib
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
from absl import logging

from tf_dynacomm import plan as plan_lib
from tf_dynacomm import policy as policy_lib
from tf_dynacomm import proposal as proposal_lib
from tf_dynacomm import schedulers
from tf_dynacomm import trial as trial_lib
from tf_dynacomm.profiling import calls, capture, measure, smoothing, step_record, trace
from tf_dynacomm.runtime import steps as steps_lib

_WARMUP_STEPS = 5
_TRACED_STEPS = 8
_MIN_CAPTURE_S = 0.2
_MAX_CAPTURE_S = 20.0
_LONGER = 3
_POLL_S = 0.01
# Steps that fail for so long have ended the training, or it waits for a lost worker.
_FAILING_S = 5.0
_GIVE_UP_LOADING_S = 10.0
# Each leaves its part on the parameter servers, which TensorFlow frees only when the chief ends.
_MAX_FUNCTIONS = 16


class Planner:
    """Decides on new plans in a background thread, one trace at a time.

    A worker has loaded the function for its new plan before the decision is handed out, so that it
    can switch at once.

    Args:
      strategy: The strategy whose training step is planned.
      policy: Decides which of the plans made are used.
      min_gain: Share of the step time that a worker's own plan must save over a common one.
      logdir: Where traces are kept; nowhere if `None`.
    """

    def __init__(
        self, strategy, policy: policy_lib.Policy, min_gain: float, logdir: pathlib.Path | None
    ):
        self._strategy = strategy
        self._policy = policy
        self._min_gain = min_gain
        self._logdir = logdir
        self._thread: threading.Thread | None = None
        self._loads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._captured = threading.Event()
        self._decided = threading.Event()
        self._ended = threading.Event()
        self._outcome: policy_lib.Decision | trace.TraceError | None = None
        self._trial: trial_lib.Trial | None = None
        self._verdicts: list[trial_lib.Verdict] = []
        self._measured: dict[int, measure.Measurement] = {}
        self._smoothers: dict[int, smoothing.Smoother] = collections.defaultdict(smoothing.Smoother)

    def start(self, remaining_steps: int | None = None) -> None:
        """Begins a decision, unless one is being made or waits to be taken.

        Args:
          remaining_steps: Steps of all workers together that will run under the new plans; `None`
            if not known.
        """
        self._begin(functools.partial(self._decide, remaining_steps=remaining_steps))

    def start_recording(self) -> None:
        """Begins to take a trace that is only kept; it ends without a decision."""
        self._begin(self._record)

    def _begin(self, act: Callable[[steps_lib.Step], policy_lib.Decision | None]) -> None:
        if self._thread is None:
            for event in (self._stop, self._captured, self._decided, self._ended):
                event.clear()
            self._thread = threading.Thread(
                target=self._work, args=(act,), name="dynacomm-planner", daemon=True
            )
            self._thread.start()

    @property
    def loading(self) -> bool:
        """Whether a decision has been made and waits for workers to load its plans."""
        return self._decided.is_set() and not self._ended.is_set()

    def take(self, wait_s: float) -> policy_lib.Decision | trace.TraceError | None:
        """Returns the decision or the reason why there is none; `None` if it is still being made.

        Args:
          wait_s: Seconds to wait for a decision whose trace has been captured. That workers load
            new plans is not waited for, since they do that while they run steps.
        """
        if self._thread is None:
            return None
        if self._captured.is_set():
            self._decided.wait(wait_s)
        if not self._ended.is_set():
            return None
        self._thread.join()
        self._thread = None
        outcome, self._outcome = self._outcome, None
        return outcome

    def try_out(self, trial: trial_lib.Trial) -> None:
        """Takes over a trial, to run it before the next decision is made."""
        self._trial = trial

    def take_verdicts(self) -> list[trial_lib.Verdict]:
        """Returns what trials have shown since the last call."""
        verdicts, self._verdicts = self._verdicts, []
        return verdicts

    def stop(self) -> None:
        """Gives up what is being made, and waits until nothing of it is left running."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for load in self._loads:
            load.join(_GIVE_UP_LOADING_S)

    def _work(self, act: Callable[[steps_lib.Step], policy_lib.Decision | None]) -> None:
        try:
            if self._trial is None or self._run_trial():
                step = self._warm_step()
                if step is not None:
                    self._outcome = act(step)
        except trace.TraceError as e:
            self._outcome = e
        except Exception as e:  # Whatever goes wrong in planning, training goes on.
            logging.exception("Planning failed.")
            self._outcome = trace.TraceError(f"Planning failed: {e!r}.")
        finally:
            self._ended.set()
            self._decided.set()

    def _run_trial(self) -> bool:
        """Runs the trial that is on; returns whether it has ended."""
        verdicts = self._trial.run(self._stop)
        if verdicts is not None:
            self._policy.learn(verdicts)
            self._verdicts += verdicts
            self._trial = None
        return verdicts is not None

    def _warm_step(self) -> steps_lib.Step | None:
        """The training step, once it has run a few times from now on; `None` when stopped."""
        coordinator = self._strategy.coordinator
        begun, failing_s = coordinator.steps_finished, 0.0
        while coordinator.steps_finished < begun + _WARMUP_STEPS:
            failing_s = failing_s + _POLL_S if coordinator.failing else 0.0
            if self._stop.wait(_POLL_S) or failing_s > _FAILING_S:
                return None
        return coordinator.training_step

    def _decide(self, step: steps_lib.Step, remaining_steps: int | None) -> policy_lib.Decision:
        if len(step.layers) == 1:
            raise trace.TraceError("The step has one layer only, so that there is nothing to cut.")
        if step.draws_seeded_numbers:
            raise trace.TraceError(
                "The step draws seeded random numbers (Dropout, say), whose sequence a new plan "
                "would start again."
            )
        tasks = self._strategy.tasks
        if all(step.plan_of(worker) is None for worker in range(len(tasks.workers))):
            raise trace.TraceError("The step runs as stock, which was measured to be faster.")
        if step.functions_made >= _MAX_FUNCTIONS:
            raise trace.TraceError(
                f"{step.functions_made} plans have been made, and TensorFlow keeps each on the "
                "parameter servers until the training ends, so that no more are. A training that "
                "is started again from its checkpoint plans anew."
            )
        proposal = self._propose(step, tasks)
        per_worker = remaining_steps and remaining_steps // len(tasks.workers)
        decision = self._policy.decide(proposal, step.loading_s, per_worker)
        self._load(decision)
        return decision

    def _propose(self, step: steps_lib.Step, tasks: capture.Tasks) -> proposal_lib.Proposal:
        """Makes plans from a trace, and from a longer one if the first is not good enough."""
        duration_s = _duration_s(step, tasks)
        try:
            return self._propose_from(step, tasks, duration_s)
        except trace.TraceError as e:
            logging.vlog(1, "A longer trace is taken: %s", e)
            return self._propose_from(step, tasks, _LONGER * duration_s)

    def _record(self, step: steps_lib.Step) -> None:
        tasks = self._strategy.tasks
        self._capture(step, tasks, _duration_s(step, tasks), _plans(step, tasks))

    def _capture(self, step, tasks, duration_s: float, current: Mapping) -> capture.Capture:
        captured = capture.capture(tasks, duration_s, self._logdir, self._captured)
        if captured.folder is not None:
            step_record.save(captured.folder, step.graph, current)
        return captured

    def _propose_from(
        self, step: steps_lib.Step, tasks: capture.Tasks, duration_s: float
    ) -> proposal_lib.Proposal:
        current = _plans(step, tasks)
        began_s = time.perf_counter()
        captured = self._capture(step, tasks, duration_s, current)
        measurements = self._measure(captured, step, current)
        plans = proposal_lib.choose_plans(
            {worker: m.costs for worker, m in measurements.items()},
            schedulers.get(self._strategy.scheduler),
            self._min_gain,
            [p for p in step.known_plans() if p.scheduler == self._strategy.scheduler],
        )
        workers = {}
        for worker, measurement in measurements.items():
            intervals_s = step.intervals_s(since_s=began_s, worker=worker)
            if len(intervals_s):
                per_call = calls.steps_per_call(captured.workers[worker].steps)
                outside_s = max(np.median(intervals_s) / per_call - measurement.span_s, 0.0)
                workers[worker] = proposal_lib.WorkerProposal(
                    current[worker], plans[worker], measurement, float(outside_s)
                )
        if not workers:
            raise trace.TraceError("Training paused while the trace was taken.")
        return proposal_lib.Proposal(step, workers)

    def _measure(self, captured: capture.Capture, step, current) -> dict[int, measure.Measurement]:
        """The costs of each worker that runs by a plan and whose trace can be read."""
        found, errors = {}, []
        for worker, host in captured.workers.items():
            if current[worker] is None:
                continue
            prior = self._measured.get(worker)
            try:
                measured = measure.measure(
                    host, captured.ps, step.graph, step.layers, current[worker], prior
                )
                found[worker] = self._smoothers[worker].update(measured)
            except trace.TraceError as e:
                errors.append(e)
        if not found:
            raise errors[0] if errors else trace.TraceError("No worker could be traced.")
        self._measured.update(found)
        return found

    def _load(self, decision: policy_lib.Decision) -> None:
        """Makes the workers load the functions for their new plans, all at the same time.

        What is neither in force nor to be goes first, so that none keeps more than it must.
        """
        step = decision.proposal.step
        if decision.plans:
            self._decided.set()
            step.forget_unused(besides=decision.plans.values())
        timeout_s = 1.0 + 10 * float(np.median(step.intervals_s()))
        self._loads = [
            threading.Thread(
                target=step.load, args=(plan, worker, timeout_s, self._stop), daemon=True
            )
            for worker, plan in decision.plans.items()
        ]
        for load in self._loads:
            load.start()
        while any(load.is_alive() for load in self._loads) and not self._stop.wait(_POLL_S):
            pass


def _plans(step: steps_lib.Step, tasks: capture.Tasks) -> dict[int, plan_lib.Plan | None]:
    return {worker: step.plan_of(worker) for worker in range(len(tasks.workers))}


def _duration_s(step: steps_lib.Step, tasks: capture.Tasks) -> float:
    """How long to trace.

    How long a step takes is told by the quickest of the last ones: a training's first steps, which
    load functions and fill pipelines, can take a hundred times as long.
    """
    intervals_s = [step.intervals_s(worker=worker) for worker in range(len(tasks.workers))]
    slowest_s = max(float(min(i[-_WARMUP_STEPS:])) for i in intervals_s if len(i))
    return float(np.clip(_TRACED_STEPS * slowest_s, _MIN_CAPTURE_S, _MAX_CAPTURE_S))
