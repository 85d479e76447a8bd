"""Refuses `model.compile(jit_compile=True)` of tf_keras before a step is traced."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

import tensorflow as tf
import tf_keras

from tf_dynacomm.runtime import coordinator

_lock = threading.Lock()
_refusing: list[tf.distribute.Strategy] = []
_compile = tf_keras.Model.compile


@contextlib.contextmanager
def refusing_xla(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Makes tf_keras refuse to compile a strategy's models for XLA, while the context is open.

    tf_keras has no hook for this: while a context is open, and no longer, `tf_keras.Model.compile`
    is replaced. A model that is compiled elsewhere is refused when its step has been traced.
    """
    with _lock:
        _refusing.append(strategy)
        tf_keras.Model.compile = _checked_compile
    try:
        yield
    finally:
        with _lock:
            _refusing.remove(strategy)
            if not _refusing:
                tf_keras.Model.compile = _compile


@functools.wraps(_compile)
def _checked_compile(model, *args, **kwargs):
    if kwargs.get("jit_compile") and model.distribute_strategy in _refusing:
        raise ValueError(coordinator.XLA_REFUSED)
    return _compile(model, *args, **kwargs)
