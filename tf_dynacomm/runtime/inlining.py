"""Inlines the functions that a step calls, so that one graph holds all that it reads and computes.

TensorFlow's runtime inlines the same calls, by the same rules, before it runs a step. Done before a
plan is applied, it shows the variables of a layer whose `call` is a `tf.function`, and lets each
gradient of such a layer leave as soon as it is ready.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf

_CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
# What the runtime keeps whole: on request, for XLA, or to choose an implementation by device.
_KEPT_WHOLE = ("_noinline", "_XlaMustCompile", "api_implements")
_LOC = b"loc:@"


@dataclasses.dataclass(frozen=True)
class Inlined:
    """A function whose calls have been inlined.

    Attributes:
      definition: Its `FunctionDef`. The nodes of a called function stand where the call stood, with
        the call's name before theirs.
      origins: For each node, the name of the function that it was traced in, and its name there.
    """

    definition: object
    origins: Mapping[str, tuple[str, str]]


def inline(definition, library: Mapping[str, object]) -> Inlined:
    """Inlines the calls in a `FunctionDef`, and those in the functions that it calls.

    As in the runtime, nodes of a called function that read its arguments, or nothing, wait for what
    the call waited for, and what waited for the call waits for the function's control outputs.

    Args:
      definition: The function; it is not changed.
      library: The `FunctionDef`s that it may call, by name.
    """
    inliner = _Inliner(type(definition)(), library)
    if not any(inliner.callee(node) or node.op == "IdentityN" for node in definition.node_def):
        name = definition.signature.name
        return Inlined(definition, {n.name: (name, n.name) for n in definition.node_def})
    inliner.result.CopyFrom(definition)
    del inliner.result.node_def[:]
    tensors = inliner.add(definition, {a.name: a.name for a in definition.signature.input_arg})
    for name, tensor in definition.ret.items():
        inliner.result.ret[name] = tensors[tensor]
    inliner.forget_absent_colocations()
    return Inlined(inliner.result, inliner.origins)


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call to inline: the prefix of its nodes' names, its device, and what it waits for."""

    prefix: str = ""
    device: str = ""
    controls: tuple[str, ...] = ()

    def placed(self, device: str) -> str:
        """A node's device; what it leaves open is the call's."""
        if not self.device or device == self.device:
            return device
        call, node = (tf.DeviceSpec.from_string(d) for d in (self.device, device))
        return call.make_merged_spec(node).to_string()


_TOP = _Call()


class _Tensors(dict):
    """A function's tensors as the result names them; those of its own nodes get a prefix."""

    def __init__(self, arguments: Mapping[str, str], prefix: str):
        super().__init__(arguments)
        self._prefix = prefix

    def __missing__(self, tensor: str) -> str:
        return self._prefix + tensor


class _Inliner:
    """Adds functions to `result`, node by node."""

    def __init__(self, result, library: Mapping[str, object]):
        self.result = result
        self.origins: dict[str, tuple[str, str]] = {}
        self._library = library

    def add(self, definition, arguments: Mapping[str, str], call: _Call = _TOP) -> _Tensors:
        """Adds a function's nodes; returns the names of its tensors in the result."""
        tensors = _Tensors(arguments, call.prefix)
        awaited = {c for node in definition.node_def for c in _controls(node)}
        awaited.update(definition.control_ret.values())
        copies = {f"{n.name}:output:0": n.input[0] for n in definition.node_def if _is_copy(n)}
        for node in definition.node_def:
            controls = [call.prefix + c for c in _controls(node)]
            if not node.input or not arguments.keys().isdisjoint(node.input):
                controls += call.controls
            callee = self.callee(node)
            if callee is None:
                self._copy(node, definition, call, tensors, controls)
                if not controls and _passes_on(node, copies):
                    for index, tensor in enumerate(_data(node)):
                        tensors[f"{node.name}:output:{index}"] = tensors[tensor]
            else:
                inner = self._inner(node, call, controls)
                self._expand(node, callee, inner, tensors)
                if node.name in awaited:
                    ends = [inner.prefix + c for c in callee.control_ret.values()]
                    self._no_op(call.prefix + node.name, inner.device, ends or controls)
        return tensors

    def callee(self, node):
        """The function that a node calls, if it is to be inlined."""
        callee = self._library.get(node.attr["f"].func.name) if node.op in _CALLS else None
        if callee is None or _is_kept_whole(node) or _is_kept_whole(callee):
            return None
        return callee

    def _inner(self, node, call: _Call, controls: Sequence[str]) -> _Call:
        """A call inside `call`; if it waits for several nodes, they are gathered in one."""
        prefix, device = f"{call.prefix}{node.name}/", call.placed(node.device)
        if len(controls) > 1:
            controls = [self._no_op(f"{prefix}input_control_node", device, controls)]
        return _Call(prefix, device, tuple(controls))

    def _expand(self, node, callee, inner: _Call, tensors: _Tensors) -> None:
        """Adds what a node calls, and lets `tensors` give its results for the node's outputs."""
        names = [a.name for a in callee.signature.input_arg]
        arguments = [tensors[t] for t in _data(node)]
        results = self.add(callee, dict(zip(names, arguments, strict=True)), inner)
        for index, output in enumerate(callee.signature.output_arg):
            tensors[f"{node.name}:output:{index}"] = results[callee.ret[output.name]]

    def _copy(self, node, definition, call: _Call, tensors: _Tensors, controls) -> None:
        copy = self.result.node_def.add()
        copy.CopyFrom(node)
        copy.name, copy.device = call.prefix + node.name, call.placed(node.device)
        copy.input[:] = [*(tensors[t] for t in _data(node)), *(f"^{c}" for c in controls)]
        classes = copy.attr["_class"].list.s if "_class" in copy.attr else []
        classes[:] = [c.replace(_LOC, _LOC + call.prefix.encode(), 1) for c in classes]
        self.origins[copy.name] = definition.signature.name, node.name

    def forget_absent_colocations(self) -> None:
        """Frees nodes from colocation with arguments and with calls, which are no nodes here."""
        present = {_LOC + name.encode() for name in self.origins}
        for node in self.result.node_def:
            if "_class" in node.attr:
                classes = node.attr["_class"].list.s
                classes[:] = [c for c in classes if c in present or not c.startswith(_LOC)]

    def _no_op(self, name: str, device: str, controls: Iterable[str]) -> str:
        self.result.node_def.add(
            name=name, op="NoOp", device=device, input=[f"^{c}" for c in controls]
        )
        return name


def _is_kept_whole(node_or_function) -> bool:
    attrs = (node_or_function.attr[k] for k in _KEPT_WHOLE if k in node_or_function.attr)
    return any(a.b or a.s for a in attrs)


def _is_copy(node) -> bool:
    return node.op == "Identity" and not _controls(node)


def _passes_on(node, copies: Mapping[str, str]) -> bool:
    """Whether a node is a function with a custom gradient that gives just what it gets.

    Such a node holds results and arguments. An optimizer's `all_reduce` over all gradients leaves
    one where there is a single replica, and each gradient would wait in it for all others.

    Args:
      node: The node.
      copies: What each copy of a tensor is made from.
    """
    tensors, half = _data(node), len(_data(node)) // 2
    return (
        node.op == "IdentityN"
        and half > 1
        and [copies.get(t, t) for t in tensors[:half]] == tensors[half:]
    )


def _data(node) -> list[str]:
    return [i for i in node.input if not i.startswith("^")]


def _controls(node) -> list[str]:
    return [i[1:] for i in node.input if i.startswith("^")]
