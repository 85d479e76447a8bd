"""Command line flags for a training program that uses `DynaCommStrategy`.

_DYNACOMM = tf_dynacomm.flags.define()

def main(argv):
    strategy = tf_dynacomm.DynaCommStrategy(resolver, **_DYNACOMM.strategy_kwargs())
    replan = tf_dynacomm.ReplanCallback(**_DYNACOMM.callback_kwargs())
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from absl import flags

from tf_dynacomm import plan as plan_lib
from tf_dynacomm import schedulers


@dataclasses.dataclass(frozen=True)
class StrategyFlags:
    """The flags that `define` has defined; their values can be asked for once they are parsed."""

    _scheduler: flags.FlagHolder[str]
    _plan: flags.FlagHolder[str | None]
    _connect_timeout: flags.FlagHolder[float]
    _replan_every: flags.FlagHolder[int | None]
    _logdir: flags.FlagHolder[str | None]

    @property
    def logdir(self) -> str | None:
        """Folder for traces, costs and plans, if any."""
        return self._logdir.value

    @property
    def connect_timeout_s(self) -> float:
        """Seconds to wait for the cluster to answer."""
        return self._connect_timeout.value

    def strategy_kwargs(self) -> dict[str, Any]:
        """Returns the keyword arguments of `DynaCommStrategy`, with the plan read from its file.

        Raises:
          OSError: The plan file cannot be read.
          ValueError: The plan file holds no valid plan, or the scheduler is `stock`.
        """
        plan = None if self._plan.value is None else plan_lib.Plan.load(self._plan.value)
        if plan is not None and self._scheduler.value == "stock":
            raise ValueError("a plan is of no use with the scheduler stock")
        return {
            "scheduler": self._scheduler.value,
            "plan": plan,
            "connect_timeout_s": self._connect_timeout.value,
        }

    def callback_kwargs(self) -> dict[str, Any]:
        """Returns the keyword arguments of `ReplanCallback`."""
        return {"logdir": self._logdir.value, "replan_every": self._replan_every.value}


def define(prefix: str = "", flag_values: flags.FlagValues = flags.FLAGS) -> StrategyFlags:
    """Defines `--scheduler`, `--plan`, `--connect_timeout`, `--replan_every` and `--logdir`.

    Args:
      prefix: Comes before each name, for a program that has flags of such names already.
      flag_values: Where to define them.

    Returns:
      What gives the arguments that they stand for.

    Raises:
      absl.flags.DuplicateFlagError: A flag of such a name exists already.
    """
    where = {"flag_values": flag_values}
    defined = StrategyFlags(
        flags.DEFINE_enum(
            f"{prefix}scheduler",
            "dynacomm",
            sorted({*schedulers.names(), "stock"}),
            "How to cut pulls and pushes into segments; stock schedules nothing.",
            **where,
        ),
        flags.DEFINE_string(
            f"{prefix}plan", None, "Plan file to use throughout, instead of profiling.", **where
        ),
        flags.DEFINE_float(
            f"{prefix}connect_timeout",
            60.0,
            "Seconds to wait for all workers and parameter servers to answer.",
            lower_bound=0.0,
            **where,
        ),
        flags.DEFINE_integer(
            f"{prefix}replan_every",
            None,
            "Re-plan after so many steps. Default: at the end of each epoch.",
            lower_bound=1,
            **where,
        ),
        flags.DEFINE_string(
            f"{prefix}logdir", None, "Folder for traces, costs and plans. Default: none.", **where
        ),
    )
    flags.register_validator(
        f"{prefix}connect_timeout", math.isfinite, "must be a finite number of seconds", **where
    )
    return defined
