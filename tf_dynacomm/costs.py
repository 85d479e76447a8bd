"""`LayerCosts`: what a training step costs, per layer, in seconds."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tf_dynacomm import files

_KIND, _VERSION = "costs", 1
_VECTORS = ("pull_s", "forward_s", "backward_s", "push_s", "apply_s")


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class LayerCosts:
    """The costs of one training step, the input of every scheduler; immutable.

    Layers are numbered 1..L in forward order (DynaComm, arXiv 2101.07968, section III). Layers at
    the same depth of a branching network count as one.

        >>> costs = LayerCosts(
        ...     pull_s=[0.2, 0.1], forward_s=[0.3, 0.1], backward_s=[0.4, 0.2],
        ...     push_s=[0.2, 0.1], overhead_s=0.01)
        >>> len(costs), costs.overhead_pull_s
        (2, 0.01)

    Attributes:
      pull_s: Seconds that each layer's parameters take on the link, without overhead; shape (L,).
      forward_s: Seconds of each layer's forward computation; shape (L,).
      backward_s: Seconds of each layer's backward computation; shape (L,).
      push_s: Seconds that each layer's gradients take on the link, without overhead; shape (L,).
      overhead_s: Seconds that each transmission costs besides (Δt), for pulls and for pushes; one
        number may be given for both.
      apply_s: Seconds in which the PS applies each layer's gradients; shape (L,); zeros if `None`.
      names: The layers' names; `"layer 1"` to `"layer L"` if `None`.

    Vectors are kept as read-only float64 arrays.

    Raises:
      ValueError: If there is no layer, vectors differ in length, or a cost is negative, NaN or
        infinite: the message says which vector, which layer, which value.
    """

    pull_s: np.ndarray
    forward_s: np.ndarray
    backward_s: np.ndarray
    push_s: np.ndarray
    overhead_s: tuple[float, float]
    apply_s: np.ndarray
    names: tuple[str, ...]

    __hash__ = None

    def __init__(
        self,
        pull_s: ArrayLike,
        forward_s: ArrayLike,
        backward_s: ArrayLike,
        push_s: ArrayLike,
        overhead_s: float | Sequence[float],
        apply_s: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ):
        count = np.size(pull_s)
        apply_s = np.zeros(count) if apply_s is None else apply_s
        given = dict(zip(_VECTORS, (pull_s, forward_s, backward_s, push_s, apply_s), strict=True))
        for name, values in given.items():
            object.__setattr__(self, name, _vector(name, values, count))
        object.__setattr__(self, "overhead_s", _overheads(overhead_s))
        object.__setattr__(self, "names", _names(names, count))

    @property
    def overhead_pull_s(self) -> float:
        """Δt of a pull."""
        return self.overhead_s[0]

    @property
    def overhead_push_s(self) -> float:
        """Δt of a push."""
        return self.overhead_s[1]

    def __len__(self) -> int:
        return len(self.pull_s)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LayerCosts):
            return NotImplemented
        return self._content() == other._content()

    def __repr__(self) -> str:
        total_s = sum(float(getattr(self, vector).sum()) for vector in _VECTORS)
        return f"LayerCosts({len(self)} layers, {total_s:.3g} s in all)"

    def save(self, path: str | os.PathLike) -> None:
        """Writes the costs as JSON.

        Raises:
          OSError: If the file cannot be written.
        """
        files.write(path, _KIND, _VERSION, self._content())

    @classmethod
    def load(cls, path: str | os.PathLike) -> LayerCosts:
        """Reads what `save` wrote.

        Raises:
          OSError: If the file cannot be read.
          ValueError: If it holds no valid costs; the message names the file.
        """
        content = files.read(path, _KIND, _VERSION)
        with files.malformed(f"{path}: no valid costs"):
            return cls(
                **{vector: content[vector] for vector in _VECTORS},
                overhead_s=content["overhead_s"],
                names=content["names"],
            )

    def _content(self) -> dict:
        vectors = {vector: getattr(self, vector).tolist() for vector in _VECTORS}
        return {"names": list(self.names), "overhead_s": list(self.overhead_s), **vectors}


def _vector(name: str, values: ArrayLike, count: int) -> np.ndarray:
    try:
        vector = np.array(values, np.float64)
    except (OverflowError, TypeError, ValueError) as e:
        raise ValueError(f"`{name}` must be a vector of numbers: {e}") from e
    if vector.shape != (count,) or not count:
        raise ValueError(
            f"`{name}` (shape {vector.shape}) must be a vector of as many layers as `pull_s` "
            f"({count}), one at least."
        )
    for layer in np.flatnonzero(~np.isfinite(vector) | (vector < 0)):
        raise ValueError(
            f"`{name}` of layer {layer + 1} ({vector[layer]}) must be finite and not negative."
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(vector.sum()):
            raise ValueError(f"`{name}` (shape {vector.shape}) must have a finite sum.")
    vector += 0.0  # Makes -0.0 a 0.0, which is printed and written without a sign.
    vector.setflags(write=False)
    return vector


def _overheads(overhead_s: float | Sequence[float]) -> tuple[float, float]:
    try:
        pair = np.array(overhead_s, np.float64)
    except (OverflowError, TypeError, ValueError) as e:
        raise ValueError(f"`overhead_s` ({overhead_s}) must be a number or a pair: {e}") from e
    if pair.shape not in ((), (2,)):
        raise ValueError(f"`overhead_s` ({overhead_s}) must be one number or a pair (pull, push).")
    if not np.all(np.isfinite(pair) & (pair >= 0)):
        raise ValueError(f"`overhead_s` ({overhead_s}) must be finite and not negative.")
    pull, push = np.broadcast_to(pair + 0.0, 2)
    return float(pull), float(push)


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"layer {number}" for number in range(1, count + 1))
    if isinstance(names, str) or len(names) != count:
        raise ValueError(f"`names` ({names!r}) must be {count} strings, one for each layer.")
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"`names` entry ({name!r}) must be a string.")
    return tuple(names)
