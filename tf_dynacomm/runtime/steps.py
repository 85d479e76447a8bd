"""Steps: a traced function, its layers, and the plan by which each worker runs it."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from absl import logging

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.runtime import (
    coupling,
    explain,
    layers,
    step_function,
    step_graph,
    step_times,
    tf_internals,
)
from tf_dynacomm.runtime.starting_plan import starting_plan

_MAX_VARIANTS = 8
_POLL_S = 0.05
_COUPLED = (
    "Each gradient waits for all the others (clipping by their global norm does that): all are "
    "pushed in one segment."
)


@dataclasses.dataclass(frozen=True)
class _Variant:
    """A plan, and the function that follows it."""

    plan: plan_lib.Plan | None
    function: Callable


class Step:
    """One function that workers run, rewritten as plans come and go.

    All workers follow one plan, but for those that have been given a plan of their own.

    Args:
      base: The concrete function as traced.
      scheduled: Whether to plan it at all; if not, it runs as traced.
      plan: The plan to begin with if the step trains; the starting plan if `None`.

    Attributes:
      graph: Its placed graph.
      layers: Its layer table, in forward order.
      first_plan: The plan that it began with; `None` if it runs as traced.
      draws_seeded_numbers: Whether a new plan would start a seeded random sequence again.
      times: When it ran.
      functions_made: How many functions have been made for plans, those dropped since included.
      loading_s: Seconds that a worker took to load a function, the last time that one did; that is
        most of the first step.

    Raises:
      plan.PlanMismatchError: If `plan` is for other layers than the step has.
    """

    def __init__(self, base, scheduled: bool = True, plan: plan_lib.Plan | None = None):
        self._base = base
        self._lock = threading.Lock()
        self._making = threading.Lock()  # Apart, so that making a function keeps no worker waiting.
        self._variants: collections.OrderedDict = collections.OrderedDict()
        self._wanted_inputs: dict[int, queue.SimpleQueue] = {}
        self._function = step_function.StepFunction(base)
        self.graph: step_graph.StepGraph = self._function.graph
        self.layers: tuple[layers.Layer, ...] = self._function.layers
        self.draws_seeded_numbers = tf_internals.draws_seeded_numbers(base)
        self.times = step_times.StepTimes()
        self.functions_made = 0
        self.loading_s: float | None = None
        self._common = _Variant(None, base)
        self._own: dict[int, _Variant] = {}
        self._seen: set[int] = set()
        if scheduled and self.layers:
            self.set_plan(plan if plan is not None and self.trains else self.starting_plan())
        self.first_plan = self.plan

    @property
    def trains(self) -> bool:
        """Whether the step pushes gradients."""
        return self._function.trains

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the layers."""
        return tuple(layer.name for layer in self.layers)

    @property
    def plan(self) -> plan_lib.Plan | None:
        """The plan that most workers follow; `None` for the step as traced."""
        with self._lock:
            plans = [self._own.get(worker, self._common).plan for worker in self._seen]
            return max([self._common.plan, *plans], key=plans.count)

    def plan_of(self, worker: int) -> plan_lib.Plan | None:
        """The plan by which a worker runs the step; `None` for the step as traced."""
        with self._lock:
            return self._own.get(worker, self._common).plan

    def starting_plan(self) -> plan_lib.Plan:
        """The plan to begin with, when nothing has been measured."""
        pull = [layer.pull_bytes for layer in self.layers]
        push = [layer.push_bytes for layer in self.layers]
        plan = starting_plan(pull, push, self.names)
        if self.trains and coupling.gradients_wait_for_all(self.graph, self.layers):
            logging.log_first_n(logging.WARNING, _COUPLED, 1)
            plan = dataclasses.replace(plan, push=((1, len(self.layers)),))
        return plan

    def explain(self, worker: int = 0) -> str:
        """A table of the step's variables, and of what a worker's plan does with them."""
        return explain.explain(self._function, self.plan_of(worker))

    def prepare(self, plan: plan_lib.Plan | None) -> None:
        """Makes the function for a plan, so that `set_plan` switches to it at once.

        Raises:
          plan.PlanMismatchError: If the plan is for other layers than the step has, or has no push
            segments for a step that trains.
        """
        if plan is None:
            return
        if plan.names is not None and tuple(plan.names) != self.names:
            raise plan_lib.PlanMismatchError(
                f"`plan` is for layers {_few(plan.names)}; this step has {_few(self.names)}. "
                "Make the plan from a trace of this model."
            )
        if self.trains and not plan.push:
            raise plan_lib.PlanMismatchError("`plan` has no push segments; this step trains.")
        self._variant(plan)

    def load(
        self, plan: plan_lib.Plan | None, worker: int, timeout_s: float, stop: threading.Event
    ) -> bool:
        """Makes a worker load the function for a plan while it goes on with the one in force.

        TensorFlow optimises, splits and places a function when it first runs, which takes seconds
        for a deep net; a worker that switches to a function that it has loaded runs it at once.
        Blocks until the function is loaded. A step whose only inputs are variables is not loaded.

        Args:
          plan: The plan; `None` for the step as traced.
          worker: The worker.
          timeout_s: Seconds to wait for the worker's next step, whose inputs are needed to load.
          stop: Ends the waiting when it is set.

        Returns:
          Whether the worker has loaded it.
        """
        self.prepare(plan)
        inputs = self._next_inputs(worker, time.perf_counter() + timeout_s, stop)
        if inputs is None:
            return False
        start_s = time.perf_counter()
        loaded = tf_internals.load(self._variant(plan), inputs)
        self.loading_s = time.perf_counter() - start_s
        return loaded

    def _next_inputs(self, worker: int, until_s: float, stop: threading.Event):
        """The inputs of a worker's next step; `None` if it runs none in time."""
        wanted = queue.SimpleQueue()
        with self._lock:
            self._wanted_inputs[worker] = wanted
        while not stop.is_set() and time.perf_counter() < until_s:
            with contextlib.suppress(queue.Empty):
                return wanted.get(timeout=_POLL_S)
        with self._lock:
            self._wanted_inputs.pop(worker, None)
        return None

    def set_plan(self, plan: plan_lib.Plan | None, workers: Iterable[int] | None = None) -> None:
        """Makes the steps that start from now on move their data as `plan` says.

        Args:
          plan: The plan; `None` for the step as traced, which is what stock runs.
          workers: The workers that are to follow it; all of them if `None`.

        Raises:
          plan.PlanMismatchError: If the plan is for other layers than the step has, or has no push
            segments for a step that trains.
        """
        self.prepare(plan)
        new = _Variant(plan, self._variant(plan))
        with self._lock:
            if workers is None:
                self._common, self._own = new, {}
            else:
                self._own.update(dict.fromkeys(workers, new))

    def _variant(self, plan: plan_lib.Plan | None):
        """The function for a plan; kept, so that going back to a plan costs nothing."""
        if plan is None:
            return self._base
        key = _key(plan)
        with self._making:
            if key not in self._variants:
                self._variants[key] = _Variant(plan, self._function.with_plan(plan))
                self.functions_made += 1
            self._variants.move_to_end(key)
            while len(self._variants) > _MAX_VARIANTS:
                self._variants.popitem(last=False)
            return self._variants[key].function

    def known_plans(self) -> tuple[plan_lib.Plan, ...]:
        """The plans whose functions are kept: those in force, then the latest of others."""
        with self._lock:
            in_force = [f.plan for f in (self._common, *self._own.values()) if f.plan is not None]
        with self._making:
            kept = [variant.plan for variant in reversed(self._variants.values())]
        return tuple(dict.fromkeys((*in_force, *kept)))

    def forget_unused(self, besides: Iterable[plan_lib.Plan | None] = ()) -> None:
        """Drops the functions of plans that are not in force, here and on the workers.

        Parameter servers keep their parts of a function until the training ends: TensorFlow gives
        no way to drop those.

        Args:
          besides: Plans whose functions are kept too.
        """
        with self._lock:
            used = [f.plan for f in (self._common, *self._own.values())]
        keys = {_key(plan) for plan in (*used, *besides) if plan is not None}
        with self._making:
            kept = ((key, v) for key, v in self._variants.items() if key in keys)
            self._variants = collections.OrderedDict(kept)

    def run(self, worker: int, *args, **kwargs):
        """Runs the step for a worker; called in that worker's thread and dispatch context."""
        with self._lock:
            self._seen.add(worker)
            in_force = self._own.get(worker, self._common)
            wanted = self._wanted_inputs.pop(worker, None)
        if wanted is not None:
            wanted.put(tf_internals.call_inputs(self._base, args, kwargs))
        start_s = time.perf_counter()
        result = in_force.function(*args, **kwargs)
        end_s = time.perf_counter()
        self.times.add(step_times.StepTime(worker, start_s, end_s, in_force.plan))
        if self.loading_s is None:
            self.loading_s = end_s - start_s
        return result

    def intervals_s(
        self, since_s: float = 0.0, worker: int | None = None, plan=step_times.ANY
    ) -> np.ndarray:
        """Seconds from one step's start to the next one's (see `StepTimes.intervals_s`)."""
        return self.times.intervals_s(since_s, worker, plan)


def _key(plan: plan_lib.Plan) -> tuple:
    """What plans have in common that are followed by the same function."""
    return plan.pull, plan.push, plan.credit


def _few(names: Sequence[str], count: int = 3) -> str:
    shown = ", ".join(names[:count])
    return f"{shown}, … ({len(names)} in all)" if len(names) > count else shown
