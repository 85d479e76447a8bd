"""A traced step as plans see it: its layers, and its copies that move data as a plan says.

The step need not be all of the function that the workers run: with `steps_per_execution` it is the
body of a loop, and a loop over an iterator runs it under a condition too. It is then found there.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping

from tf_dynacomm import plan as plan_lib
from tf_dynacomm.runtime import (
    gathers,
    graph_builder,
    inlining,
    layers,
    rewrite,
    step_graph,
    tensor_types,
    tf_internals,
)

# Operations that run functions: the attributes that name these, and the first input that is theirs.
_LOOP = (("body",), 0)
_CONDITION = (("then_branch", "else_branch"), 1)
_INNER = {"While": _LOOP, "StatelessWhile": _LOOP, "If": _CONDITION, "StatelessIf": _CONDITION}

_numbers = itertools.count()


class StepFunction:
    """What a concrete function pulls and pushes, and how to make it follow a plan.

    Args:
      base: The concrete function as traced.

    Attributes:
      graph: The placed graph of its step.
      layers: The step's layer table, in forward order.
    """

    def __init__(self, base):
        self._base = base
        functions = tf_internals.functions_of(base)
        outer = _Body(next(iter(functions)), tf_internals.variables_of(base), functions)
        self._step = _step(outer)
        self.graph: step_graph.StepGraph = self._step.graph
        self.layers: tuple[layers.Layer, ...] = self._step.layers

    @property
    def trains(self) -> bool:
        """Whether it pushes gradients."""
        return self._step.trains

    @property
    def repeats(self) -> bool:
        """Whether one run of the function may hold several steps."""
        return self._step.caller is not None

    def with_plan(self, plan: plan_lib.Plan):
        """A copy of the concrete function that moves its data as `plan` says.

        Raises:
          plan.PlanMismatchError: If the plan is for another number of layers than the step has.
        """
        *inner, outer = self._step.with_plan(plan, f"_dynacomm_{next(_numbers)}")
        return tf_internals.with_function_def(self._base, outer, inner)


@dataclasses.dataclass(frozen=True)
class _Caller:
    """Where a function is run from: a node of another one, and the attribute that names it."""

    body: _Body
    node: str
    attr: str


class _Body:
    """The concrete function itself, or a function that it runs as the body of a loop or condition.

    Args:
      name: The function's name.
      variables: The variables among its arguments, by argument name.
      functions: All functions of the step, by name.
      caller: Where it is run from; `None` for the concrete function itself.
    """

    def __init__(
        self,
        name: str,
        variables: Mapping[str, step_graph.Variable],
        functions: Mapping[str, tf_internals.Function],
        caller: _Caller | None = None,
    ):
        library = {n: f.definition for n, f in functions.items()}
        inlined = inlining.inline(library[name], library)
        types = tensor_types.TensorTypes(functions, inlined.origins)
        self.caller = caller
        self._definition = gathers.gather_beside_tables(inlined.definition, variables)
        self.graph = step_graph.StepGraph(self._definition, variables, types)
        self._functions = functions

    @functools.cached_property
    def layers(self) -> tuple[layers.Layer, ...]:
        """Its layer table, in forward order."""
        return layers.layer_table(self.graph)

    @property
    def trains(self) -> bool:
        """Whether it pushes gradients."""
        return any(layer.pushes for layer in self.layers)

    def inner(self) -> Iterator[_Body]:
        """The bodies of its own loops and conditions."""
        for node in self._definition.node_def:
            attrs, first = _INNER.get(node.op, ((), 0))
            for attr in attrs:
                name, handles = (
                    node.attr[attr].func.name,
                    self.graph.nodes[node.name].inputs[first:],
                )
                variables = self._passed_on(name, handles)
                yield _Body(name, variables, self._functions, _Caller(self, node.name, attr))

    def _passed_on(self, name: str, inputs: tuple[str, ...]) -> dict[str, step_graph.Variable]:
        """The variables that a function gets, by the names of its arguments."""
        args = [a.name for a in self._functions[name].definition.signature.input_arg]
        known = self.graph.variables
        return {
            arg: dataclasses.replace(known[tensor], arg=arg)
            for arg, tensor in zip(args, inputs, strict=True)
            if tensor in known
        }

    def with_plan(self, plan: plan_lib.Plan, suffix: str) -> list:
        """Its definition for a plan, and those of the functions that run it, outermost last."""
        name = self._definition.signature.name + suffix
        definition = rewrite.rewrite(self._definition, name, self.graph, self.layers, plan)
        return [definition, *self._callers(name, suffix)]

    def _callers(self, name: str, suffix: str) -> Iterator:
        """The functions that run this one, edited to run the function `name` in its place."""
        if self.caller is not None:
            outer = self.caller.body
            outer_name = outer._definition.signature.name + suffix
            builder = graph_builder.GraphBuilder(outer._definition, outer_name)
            builder.set_function(self.caller.node, self.caller.attr, name)
            yield builder.function_def
            yield from outer._callers(outer_name, suffix)


def _step(outer: _Body) -> _Body:
    """The outermost body that trains; else the outermost that pulls; else `outer`."""
    bodies = [outer]
    for body in bodies:
        if body.trains:
            return body
        bodies.extend(body.inner())
    return next((body for body in bodies if body.layers), outer)
