"""The versions of TensorFlow that tf_dynacomm is tested with; it refuses to run with others.

Steps are rewritten through parts of TensorFlow that are not public. A version that changes them
need not fail: it could also train something else. So a later version is an error too, not a
warning, until the tests have passed with it.
"""

from __future__ import annotations

import tensorflow as tf

OLDEST = (2, 20)
NEWEST = (2, 21)
REQUIREMENT = f"tensorflow>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"


def check() -> None:
    """Checks the installed TensorFlow.

    Raises:
      ImportError: If it is older than `OLDEST` or newer than `NEWEST`.
    """
    major, minor = map(int, tf.__version__.split(".")[:2])
    if not OLDEST <= (major, minor) <= NEWEST:
        raise ImportError(
            f"TensorFlow ({tf.__version__}) must be a version that tf_dynacomm is tested with, "
            f"because it uses parts that are not public: pip install '{REQUIREMENT}'"
        )
