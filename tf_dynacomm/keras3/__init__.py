"""Keras 3 on parameter servers: `fit`, `evaluate` and `predict` whose steps run on the workers.

Keras 3's trainer takes its steps on the chief, and so fails under a parameter-server strategy. Here
each model that is made in the strategy's scope gets entry points of its own (see `models`), which
bring the data to the workers (`data`) and schedule the model's steps there (`functions`).
`internals` alone knows Keras from within. Keras is not imported here, but found if it is there.
"""

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager


class Scope(AbstractContextManager):
    """A strategy's scope, in which Keras 3 models are made for its workers.

    Args:
      strategy: The strategy.
      scope: Its scope as TensorFlow has it.
    """

    def __init__(self, strategy, scope: AbstractContextManager):
        self._strategy = strategy
        self._scope = scope
        self._open: list[contextlib.ExitStack] = []  # More than one if entered from within.

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            entered = stack.enter_context(self._scope)
            if "keras.src.backend.tensorflow.trainer" in sys.modules:
                from tf_dynacomm.keras3 import models

                stack.enter_context(models.adopting(self._strategy))
            self._open.append(stack.pop_all())
        return entered

    def __exit__(self, *error):
        return self._open.pop().__exit__(*error)
