"""A strategy's scope, which looks after the models of both Kerases that are made in it."""

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager


class Scope(AbstractContextManager):
    """A strategy's scope: Keras 3's models train on the workers; tf_keras's refuse XLA early.

    Neither Keras is imported here, but found if it is there.

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
            if "tf_keras" in sys.modules:
                from tf_dynacomm import tf_keras_compile

                stack.enter_context(tf_keras_compile.refusing_xla(self._strategy))
            self._open.append(stack.pop_all())
        return entered

    def __exit__(self, *error):
        return self._open.pop().__exit__(*error)
