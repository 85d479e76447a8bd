"""Trace → costs: captures tf.profiler traces, reads them, and tells what each layer costs."""
