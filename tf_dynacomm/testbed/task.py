"""Serves one task in a network of its own, and ends with the process that started it.

Unlike `tools.server --tied_to_stdin` it listens on all interfaces, which in a network namespace of
the testbed lead to the testbed only.
"""

from __future__ import annotations

import os
import sys

from tf_dynacomm import cluster_config
from tf_dynacomm.tools import server


def main() -> None:
    """Serves the task that `TF_CONFIG` names until standard input is closed."""
    config = cluster_config.ClusterConfig.from_tf_config(os.environ["TF_CONFIG"])
    _server = server.start(config)
    sys.stdin.buffer.read()
    os._exit(0)  # A TensorFlow server has no way to stop.


if __name__ == "__main__":
    main()
