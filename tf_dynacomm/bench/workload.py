"""What is run in a benchmark, and how."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tf_dynacomm import models
from tf_dynacomm.bench import contenders as contenders_lib

_EMULATED = "emulated"
_FORM = f"{_EMULATED}:ARCHITECTURE:SCALE:FORWARD_S:BACKWARD_S"


@dataclasses.dataclass(frozen=True)
class Workload:
    """A model, real or on an emulated accelerator.

    Attributes:
      name: Its specification.
      model: The model's name.
      batch_size: Images in a step, if the model is real.
      scale: Size of each tensor against the real model's, if emulated.
      forward_s: Seconds of forward computation, if emulated.
      backward_s: Seconds of backward computation, if emulated.
    """

    name: str
    model: str
    batch_size: int = 32
    scale: float | None = None
    forward_s: float = 0.0
    backward_s: float = 0.0

    @property
    def emulated(self) -> bool:
        """Whether the model is on an emulated accelerator."""
        return self.scale is not None

    @classmethod
    def parse(cls, text: str, batch_size: int = 32) -> Workload:
        """Reads a specification.

        >>> Workload.parse("emulated:resnet152:0.125:0.5:1.0").scale
        0.125
        >>> Workload.parse("small_cnn", batch_size=8).batch_size
        8

        Args:
          text: The name of a model, or `emulated:ARCHITECTURE:SCALE:FORWARD_S:BACKWARD_S`.
          batch_size: Images in a step of a real model.

        Raises:
          ValueError: `text` is neither.
        """
        kind, *values = text.split(":")
        if kind != _EMULATED:
            return cls(text, _known(text, models.names()), batch_size)
        if len(values) != 4:
            raise ValueError(f"a model ({text}) must be a name or have the form {_FORM}.")
        model, *numbers = values
        scale, forward_s, backward_s = (_number(text, number) for number in numbers)
        if not scale > 0:
            raise ValueError(f"the scale of a model ({text}) must be positive.")
        model = _known(model, models.architecture_names())
        return cls(text, model, batch_size, scale, forward_s, backward_s)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A row of the grid but for the rate, which changes while a cluster runs.

    Attributes:
      workload: What is trained.
      latency_s: Added latency of the links, each way.
      workers: Number of workers.
    """

    workload: Workload
    latency_s: float
    workers: int


@dataclasses.dataclass(frozen=True)
class Rate:
    """A rate of the workers' links, as it was given and in bytes a second."""

    text: str
    bytes_per_s: float


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a cell is run.

    Attributes:
      contenders: Their names.
      rounds: How often each has its turn.
      steps: Steps of each turn.
      how: How the links are made; see `Links`.
      ps_bytes_per_s: Rate of the link that all workers share to the PS tasks, both ways.
    """

    contenders: Sequence[str] = contenders_lib.NAMES
    rounds: int = 3
    steps: int = 5
    how: str | None = None
    ps_bytes_per_s: float = math.inf


def _known(name: str, names: tuple[str, ...]) -> str:
    if name not in names:
        raise ValueError(f"a model ({name}) must be one of {', '.join(names)}, or {_FORM}.")
    return name


def _number(text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"numbers of a model ({text}) must be finite and not negative: {_FORM}.")
    return value
