"""Trace → costs: captures tf.profiler traces, reads them, and tells what each layer costs."""

from tf_dynacomm import tensorflow_version

tensorflow_version.check()
