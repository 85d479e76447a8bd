"""The coordinator that runs every scheduled function as a planned `Step`."""

from __future__ import annotations

import contextlib
import functools
import re
import statistics
import threading
import weakref
from collections.abc import Iterator, Mapping

import tensorflow as tf
from absl import logging

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.runtime import steps, tf_coordinator, tf_internals

XLA_REFUSED = (
    "`jit_compile` (True) must be False: XLA compiles a step for one device, and cannot reach "
    "variables on parameter servers. Use `jit_compile=False`."
)
_ON_CLUSTER = re.compile(r"/job:(ps|worker)/")
_END_OF_DATA = "End of sequence"  # What an iterator says at its end.


class DataEndedError(tf.errors.OutOfRangeError):
    """The dataset of a worker has ended before the steps have."""

    def __init__(self, worker: int, trains: bool):
        purpose = "trains on" if trains else "evaluates or predicts"
        super().__init__(
            None,
            None,
            f"Worker {worker} has reached the end of the dataset that it {purpose}. Every worker "
            "reads a dataset of its own, which must give as many batches as that worker takes "
            "steps: end it with `.repeat()`, or ask for fewer steps.",
        )


class Steps:
    """All steps of one strategy.

    Args:
      plan: A plan for the training step that is never replaced, or `None`.
      scheduled: Whether steps are planned at all.
    """

    def __init__(self, plan: plan_lib.Plan | None, scheduled: bool):
        self.fixed_plan = plan
        self._scheduled = scheduled
        self._lock = threading.Lock()
        self._steps: list[weakref.ref[steps.Step]] = []
        self._latest: weakref.ref[steps.Step] | None = None
        self.ended: DataEndedError | None = None
        self.first_plans: Mapping[int, plan_lib.Plan] = {}
        self.finished = 0
        self.failing = False

    def runner_of(self, concrete_function):
        """What runs a concrete function on a worker: called with the worker and the arguments."""
        with self._lock:
            step = tf_internals.attached(
                concrete_function, lambda: self._new_step(concrete_function)
            )
        return functools.partial(self._run, step)

    def _new_step(self, concrete_function) -> steps.Step:
        if tf_internals.compiles_variables(concrete_function):
            raise ValueError(XLA_REFUSED)
        step = steps.Step(concrete_function, self._scheduled, self.fixed_plan)
        if self.first_plans and step.trains:
            _begin_with(self.first_plans, step)
        _warn_of_variables_on_the_chief(step)
        self._steps.append(weakref.ref(step))
        return step

    def _run(self, step: steps.Step, worker: int, *args, **kwargs):
        try:
            with self._end_of_data(worker, step.trains):
                result = step.run(worker, *args, **kwargs)
        except Exception:
            self.failing = True
            raise
        with self._lock:
            self.failing = False
            if step.trains:
                self._latest = weakref.ref(step)
                self.finished += 1
        return result

    @contextlib.contextmanager
    def _end_of_data(self, worker: int, trains: bool) -> Iterator[None]:
        """Tells the end of data as what it is."""
        try:
            yield
        except tf.errors.OutOfRangeError as e:
            if _END_OF_DATA not in e.message:
                raise
            self.ended = self.ended or DataEndedError(worker, trains)
            raise self.ended from e

    @contextlib.contextmanager
    def settled_by_errors(self) -> Iterator[None]:
        """What the caller does may raise a step's error; no step is under way any more then."""
        try:
            yield
        except tf.errors.OutOfRangeError:
            self.ended = None
            raise

    @property
    def training(self) -> steps.Step | None:
        """The training step that ran last, else the one traced last."""
        step = self._latest and self._latest()
        return step or next((s for s in reversed(self.all()) if s.trains), None)

    def all(self) -> list[steps.Step]:
        """The steps traced so far and still in use, oldest first."""
        with self._lock:
            return [step for ref in self._steps if (step := ref()) is not None]


def _begin_with(plans: Mapping[int, plan_lib.Plan], step: steps.Step) -> None:
    """Lets each worker begin a step with its plan, and others with what most have."""
    try:
        most = statistics.mode(plans.values())
        step.set_plan(most)
        for worker, plan in plans.items():
            if plan != most:
                step.set_plan(plan, [worker])
        step.first_plan = most
    except plan_lib.PlanMismatchError as e:
        logging.warning("The plans that were kept are not used: %s", e)
        step.set_plan(step.first_plan)


def _warn_of_variables_on_the_chief(step: steps.Step) -> None:
    names = [v.name for v in step.graph.variables.values() if not _ON_CLUSTER.search(v.device)]
    if names:
        logging.warning(
            "Variables made outside of `strategy.scope()` stay on the chief, and travel between it "
            "and the workers in every step: %s. Make them within the scope.",
            ", ".join(names),
        )


class DynaCommCoordinator(tf_coordinator.Coordinator):
    """Runs scheduled functions with their pulls and pushes grouped as planned.

    It is the strategy's one coordinator: `tf.distribute.coordinator.ClusterCoordinator(strategy)`
    gives it, so that `model.fit` and custom loops go through it alike.

    Args:
      strategy: The strategy.
      plan: A plan for the training step that is never replaced, or `None`.
      scheduled: Whether steps are planned at all.
    """

    def __init__(self, strategy, plan: plan_lib.Plan | None = None, scheduled: bool = True):
        if not hasattr(self, "_steps"):
            self._steps = Steps(plan, scheduled)
        super().__init__(strategy, self._steps.runner_of, lambda: self._steps.ended)

    def schedule(self, fn, args=None, kwargs=None) -> tf.distribute.coordinator.RemoteValue:
        """Schedules a function, or raises the error of an earlier one, as TensorFlow's own does."""
        with self._steps.settled_by_errors():
            return super().schedule(fn, args, kwargs)

    def join(self) -> None:
        """Waits for all that is scheduled, or raises its error, as TensorFlow's own does."""
        with self._steps.settled_by_errors():
            super().join()

    def begin_with(self, plans: Mapping[int, plan_lib.Plan]) -> None:
        """Lets training steps that are traced from now on begin with plans from elsewhere.

        Plans that are for another model are told in the log, and not used.

        Args:
          plans: The plan of each worker, by index; others take the one that most have.
        """
        self._steps.first_plans = dict(plans)

    @property
    def training_step(self) -> steps.Step | None:
        """The step that trains: the one that ran last, else the one traced last."""
        return self._steps.training

    @property
    def failing(self) -> bool:
        """Whether the latest step to end failed on its worker."""
        return self._steps.failing

    @property
    def steps(self) -> list[steps.Step]:
        """All functions scheduled so far and still in use, oldest first."""
        return self._steps.all()

    @property
    def steps_finished(self) -> int:
        """How many training steps the workers have finished."""
        return self._steps.finished
