"""tf_dynacomm: communication scheduling for TensorFlow's parameter servers.

`DynaCommStrategy` takes the place of `tf.distribute.ParameterServerStrategy`; `ReplanCallback`
measures a training and re-plans it. The planning half (`LayerCosts`, `Plan`, `schedulers`,
`timeline`) needs NumPy only: TensorFlow is loaded when something that needs it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tf_dynacomm import schedulers, timeline
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan
from tf_dynacomm.version import __version__

if TYPE_CHECKING:
    from tf_dynacomm import flags
    from tf_dynacomm.callbacks import ReplanCallback
    from tf_dynacomm.epoch_report import EpochReport
    from tf_dynacomm.replan import Replanner
    from tf_dynacomm.strategy import DynaCommStrategy

_LOADED_ON_USE = {
    "DynaCommStrategy": "tf_dynacomm.strategy",
    "EpochReport": "tf_dynacomm.epoch_report",
    "ReplanCallback": "tf_dynacomm.callbacks",
    "Replanner": "tf_dynacomm.replan",
    "flags": None,
}

__all__ = [
    "DynaCommStrategy",
    "EpochReport",
    "LayerCosts",
    "Plan",
    "ReplanCallback",
    "Replanner",
    "__version__",
    "flags",
    "schedulers",
    "timeline",
]


def __getattr__(name: str):
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _LOADED_ON_USE[name]
    return (
        getattr(importlib.import_module(home), name)
        if home
        else importlib.import_module(f"{__name__}.{name}")
    )


def __dir__():
    return sorted(__all__)
