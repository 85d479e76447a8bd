"""Refuses `model.compile(jit_compile=True)` of tf_keras before a step is traced."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

import tf_keras

from tf_dynacomm.runtime import coordinator

_lock = threading.Lock()
_open_contexts = 0
_compile = tf_keras.Model.compile


@contextlib.contextmanager
def refusing_xla() -> Iterator[None]:
    """Makes tf_keras refuse to compile a model for XLA, as long as the context is open.

    tf_keras has no hook for this: while a context is open, and no longer, `tf_keras.Model.compile`
    is replaced. A model that is compiled elsewhere is refused when its step has been traced.
    """
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(opened: int) -> None:
    global _open_contexts
    with _lock:
        _open_contexts += opened
        tf_keras.Model.compile = _checked_compile if _open_contexts else _compile


@functools.wraps(_compile)
def _checked_compile(model, *args, **kwargs):
    if kwargs.get("jit_compile"):
        raise ValueError(coordinator.XLA_REFUSED)
    return _compile(model, *args, **kwargs)
