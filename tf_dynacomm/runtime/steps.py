"""Steps: a traced function, its layers, its plan, and the variant of it that each worker runs."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import threading
import time
from collections.abc import Sequence

import numpy as np

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.runtime import layers, rewrite, step_graph, tf_internals
from tf_dynacomm.runtime.starting_plan import starting_plan

_MAX_VARIANTS = 8
_MAX_TIMES = 4096
_numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class StepTime:
    """When one step ran.

    Attributes:
      worker: The worker's index.
      start_s: When the chief handed it to the worker (`time.perf_counter`).
      end_s: When the worker had finished it.
      plan: The plan in force; `None` for the step as traced.
    """

    worker: int
    start_s: float
    end_s: float
    plan: plan_lib.Plan | None


class Step:
    """One function that workers run, rewritten as plans come and go.

    Args:
      base: The concrete function as traced.
      scheduled: Whether to plan it at all; if not, it runs as traced.
      plan: The plan to begin with if the step trains; the starting plan if `None`.

    Attributes:
      graph: Its placed graph.
      layers: Its layer table, in forward order.
      plan: The plan in force; `None` if it runs as traced.
      first_plan: The plan that it began with.
      draws_seeded_numbers: Whether a new plan would start a seeded random sequence again.
      measured: What was last measured of it, if anything.

    Raises:
      plan.PlanMismatchError: If `plan` is for other layers than the step has.
    """

    def __init__(self, base, scheduled: bool = True, plan: plan_lib.Plan | None = None):
        self._base = base
        self._lock = threading.Lock()
        self._variants: collections.OrderedDict = collections.OrderedDict()
        self._times: collections.deque[StepTime] = collections.deque(maxlen=_MAX_TIMES)
        self.graph: step_graph.StepGraph = tf_internals.step_graph_of(base)
        self.layers: tuple[layers.Layer, ...] = layers.layer_table(self.graph)
        self.plan: plan_lib.Plan | None = None
        if scheduled and self.layers:
            self.set_plan(plan if plan is not None and self.trains else self.starting_plan())
        self.first_plan = self.plan
        self.draws_seeded_numbers = tf_internals.draws_seeded_numbers(base)
        self.measured = None

    @property
    def trains(self) -> bool:
        """Whether the step pushes gradients."""
        return any(layer.pushes for layer in self.layers)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the layers."""
        return tuple(layer.name for layer in self.layers)

    def starting_plan(self) -> plan_lib.Plan:
        """The plan to begin with, when nothing has been measured."""
        pull = [layer.pull_bytes for layer in self.layers]
        push = [layer.push_bytes for layer in self.layers]
        return starting_plan(pull, push, self.names)

    def prepare(self, plan: plan_lib.Plan) -> None:
        """Makes the function for a plan, so that `set_plan` switches to it at once.

        Raises:
          plan.PlanMismatchError: If the plan is for other layers than the step has, or has no push
            segments for a step that trains.
        """
        if plan.names is not None and tuple(plan.names) != self.names:
            raise plan_lib.PlanMismatchError(
                f"`plan` is for layers {_few(plan.names)}; this step has {_few(self.names)}. "
                "Make the plan from a trace of this model."
            )
        if self.trains and not plan.push:
            raise plan_lib.PlanMismatchError("`plan` has no push segments; this step trains.")
        self._variant(plan)

    def set_plan(self, plan: plan_lib.Plan) -> None:
        """Makes the steps that start from now on move their data as `plan` says.

        Raises:
          plan.PlanMismatchError: If the plan is for other layers than the step has, or has no push
            segments for a step that trains.
        """
        self.prepare(plan)
        variant = self._variant(plan)
        with self._lock:
            self.plan, self._current = plan, variant

    def _variant(self, plan: plan_lib.Plan):
        """The function for a plan; kept, so that going back to a plan costs nothing."""
        key = (plan.pull, plan.push, plan.credit)
        if key not in self._variants:
            definition = self._base.function_def
            name = f"{definition.signature.name}_dynacomm_{next(_numbers)}"
            rewritten = rewrite.rewrite(definition, name, self.graph, self.layers, plan)
            self._variants[key] = tf_internals.with_function_def(self._base, rewritten)
        self._variants.move_to_end(key)
        while len(self._variants) > _MAX_VARIANTS:
            self._variants.popitem(last=False)
        return self._variants[key]

    def run(self, worker: int, *args, **kwargs):
        """Runs the step for a worker; called in that worker's thread."""
        with self._lock:
            plan = self.plan
            function = self._base if plan is None else self._current
        start_s = time.perf_counter()
        result = function(*args, **kwargs)
        with self._lock:
            self._times.append(StepTime(worker, start_s, time.perf_counter(), plan))
        return result

    def times(self) -> list[StepTime]:
        """The latest finished steps, oldest first."""
        with self._lock:
            return list(self._times)

    def intervals_s(self, since_s: float = 0.0) -> np.ndarray:
        """Seconds from each step's start to the start of the same worker's next one.

        Args:
          since_s: Only steps that started then or later (`time.perf_counter`).
        """
        starts = collections.defaultdict(list)
        for step in self.times():
            if step.start_s >= since_s:
                starts[step.worker].append(step.start_s)
        return np.concatenate([np.diff(s) for s in starts.values()] or [np.zeros(0)])


def _few(names: Sequence[str], count: int = 3) -> str:
    shown = ", ".join(names[:count])
    return f"{shown}, … ({len(names)} in all)" if len(names) > count else shown
