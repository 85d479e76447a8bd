"""`Plan`: where the pulls and pushes of a step are cut into segments."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from tf_dynacomm import files

_KIND, _VERSION = "plan", 1

Segment = tuple[int, int]


class PlanMismatchError(ValueError):
    """A plan is for another model than the one that it is to be used with."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A decision: which layers travel together, and in what order.

        >>> plan = Plan(pull=((1, 2), (3, 8)), push=((5, 8), (1, 4)))
        >>> plan.num_layers
        8

    Attributes:
      pull: Segments (first, last) of layer numbers, 1-based and inclusive, in the order sent: 1..L.
      push: The same for gradients, sent from layer L downwards; empty for a step that trains
        nothing.
      credit: How many pull segments may be in flight at once.
      names: The layers' names, by which a plan is known to be for a model; `None` for any model of
        L layers.
      scheduler: Name of the scheduler that made it, if any. Plans that differ in nothing else are
        equal.

    Raises:
      ValueError: If segments do not cover 1..L once and in order, `credit` is less than 1, there
        are not L names, or `scheduler` is no name.
    """

    pull: tuple[Segment, ...]
    push: tuple[Segment, ...]
    credit: int = dataclasses.field(default=1, kw_only=True)
    names: tuple[str, ...] | None = dataclasses.field(default=None, kw_only=True)
    scheduler: str | None = dataclasses.field(default=None, kw_only=True, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "pull", _segments("pull", self.pull))
        object.__setattr__(self, "push", _segments("push", self.push))
        if self.names is not None and not isinstance(self.names, str):
            object.__setattr__(self, "names", tuple(self.names))
        if not self.pull:
            raise ValueError("`pull` (empty) must have at least one segment.")
        _check_cover("pull", self.pull, self.num_layers)
        if self.push:
            _check_cover("push", self.push[::-1], self.num_layers)
        if type(self.credit) is not int or self.credit < 1:
            raise ValueError(f"`credit` ({self.credit}) must be a whole number, at least 1.")
        if self.names is not None:
            _check_names(self.names, self.num_layers)
        if not isinstance(self.scheduler, str | None):
            raise ValueError(f"`scheduler` ({self.scheduler!r}) must be a name.")

    @property
    def num_layers(self) -> int:
        """L, the number of layers."""
        return self.pull[-1][1]

    def save(self, path: str | os.PathLike) -> None:
        """Writes the plan as JSON.

        Raises:
          OSError: If the file cannot be written.
        """
        files.write(path, _KIND, _VERSION, dataclasses.asdict(self))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Plan:
        """Reads what `save` wrote.

        Raises:
          OSError: If the file cannot be read.
          ValueError: If it holds no valid plan; the message names the file.
        """
        content = files.read(path, _KIND, _VERSION)
        with files.malformed(f"{path}: no valid plan"):
            return cls(**{field.name: content[field.name] for field in dataclasses.fields(cls)})


def _segments(name: str, segments: Sequence[Sequence[int]]) -> tuple[Segment, ...]:
    return tuple(_segment(name, segment) for segment in segments)


def _segment(name: str, segment: Sequence[int]) -> Segment:
    if not isinstance(segment, Sequence) or [type(number) for number in segment] != [int, int]:
        raise ValueError(f"`{name}` segment ({segment}) must be a pair of layer numbers.")
    return tuple(segment)


def _check_cover(name: str, segments: Sequence[Segment], num_layers: int) -> None:
    """Checks that segments, given in forward order, cover 1..L once."""
    expected = 1
    for first, last in segments:
        if first != expected or last < first:
            raise ValueError(
                f"`{name}` segment ({first}, {last}) must begin at layer {expected} and not be "
                "empty: segments cover every layer once, in order."
            )
        expected = last + 1
    if expected != num_layers + 1:
        raise ValueError(f"`{name}` must end at layer {num_layers}, not {expected - 1}.")


def _check_names(names: Sequence[str], num_layers: int) -> None:
    strings = not isinstance(names, str) and all(isinstance(name, str) for name in names)
    if not strings or len(names) != num_layers:
        raise ValueError(f"`names` ({names!r}) must be {num_layers} strings, one for each layer.")
