"""Plan → TensorFlow graph: the layer table, the rewriting of steps, and the coordinator."""

from tf_dynacomm import tensorflow_version

tensorflow_version.check()
