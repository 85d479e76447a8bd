"""Runs one worker or parameter server of the cluster that `TF_CONFIG` describes.

TF_CONFIG='{"cluster": {"worker": ["127.0.0.1:4001"], "ps": ["127.0.0.1:4002"]},
            "task": {"type": "ps", "index": 0}}' python -m tf_dynacomm.tools.server
"""

import os
import signal
import socket
import sys
from collections.abc import Sequence

from absl import flags

from tf_dynacomm import cluster_config
from tf_dynacomm.tools import command, environment

_TIED_TO_STDIN = flags.DEFINE_bool(
    "tied_to_stdin", False, "Serve this machine only, and exit when standard input is closed."
)

# A worker computes while it waits for transfers; with fewer threads one keeps the other waiting.
_MIN_INTER_OP_THREADS = 4


def start(config: cluster_config.ClusterConfig):
    """Starts a TensorFlow server in this process.

    TensorFlow's servers listen on all network interfaces, whatever address the cluster names, and
    run what anybody sends them: a firewall must keep out whoever is not trusted.

    Args:
      config: The cluster, and which of its workers or parameter servers this process is.

    Returns:
      The running `tf.distribute.Server`.

    Raises:
      ValueError: This process is neither a worker nor a parameter server.
      OSError: Something else listens on the port.
    """
    if config.job not in ("worker", "ps"):
        raise ValueError(f"`TF_CONFIG`: task type ({config.job}) must be worker or ps.")
    cluster_config.check_port_is_free(config.address)
    # It runs graphs: without Keras 3, which TensorFlow else loads, it is smaller and up sooner.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    environment.load_tensorflow()
    import tensorflow as tf

    threads = max(_MIN_INTER_OP_THREADS, os.cpu_count() or 1)
    return tf.distribute.Server(
        tf.train.ClusterSpec(config.training_cluster),
        job_name=config.job,
        task_index=config.task,
        config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads),
    )


def keep_to_this_machine(port: int) -> None:
    """Lets the sockets of this process that listen on `port` hear the loopback interface only.

    Does nothing where the operating system cannot (it takes Linux 5.7 or newer).
    """
    if not hasattr(socket, "SO_BINDTODEVICE"):
        return
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(descriptor))) as listener:
                if listener.getsockname()[1:2] == (port,):
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
        except OSError:  # Not a socket, or one that this kernel does not let us change.
            continue


def serve(config: cluster_config.ClusterConfig) -> None:
    """Starts a TensorFlow server as `start` does, and never returns."""
    running = start(config)
    while running:
        signal.pause()  # Unlike `running.join()` it lets signals be handled.


def main(argv: Sequence[str]) -> None:
    """Serves until the process is ended."""
    del argv
    try:
        config = cluster_config.ClusterConfig.from_tf_config(os.environ.get("TF_CONFIG", ""))
        if not _TIED_TO_STDIN.value:
            serve(config)
        _server = start(config)
    except ValueError as error:
        raise command.UserError(str(error)) from error
    except OSError as error:
        print(f"server: {error.strerror}", file=sys.stderr)
        sys.exit(error.errno)
    keep_to_this_machine(int(config.address.rpartition(":")[2]))
    sys.stdin.buffer.read()
    os._exit(0)  # A TensorFlow server has no way to stop.


if __name__ == "__main__":
    command.run(main)
