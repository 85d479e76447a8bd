"""How the tools load TensorFlow: on the CPU, and without its start-up notes on the terminal."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

from absl import logging

_STDERR_DESCRIPTOR = 2


def load_tensorflow() -> None:
    """Loads TensorFlow on the CPU, and keeps its notes and warnings off the terminal.

    With `--verbosity=0` or more, or with `TF_CPP_MIN_LOG_LEVEL` set by the user, they are shown; a
    `CUDA_VISIBLE_DEVICES` that the user has set stays.

    Raises:
      ImportError: TensorFlow cannot be loaded; what it printed goes to standard error.
    """
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    quiet = not logging.level_info() and "TF_CPP_MIN_LOG_LEVEL" not in os.environ
    if quiet:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    # TensorFlow 2.21 prints some notes at import whatever its log level.
    with _stderr_set_aside() if quiet else contextlib.nullcontext():
        import tensorflow as tf
        import tf_keras  # noqa: F401
    if quiet:
        tf.get_logger().setLevel("ERROR")


@contextlib.contextmanager
def _stderr_set_aside() -> Iterator[None]:
    """Hides what this process and its native libraries print, unless the block fails."""
    sys.stderr.flush()
    terminal = os.dup(_STDERR_DESCRIPTOR)
    with tempfile.TemporaryFile() as aside, os.fdopen(terminal, "wb") as stderr:
        os.dup2(aside.fileno(), _STDERR_DESCRIPTOR)
        try:
            yield
        except BaseException:
            aside.seek(0)
            shutil.copyfileobj(aside, stderr)
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, _STDERR_DESCRIPTOR)
