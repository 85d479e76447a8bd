"""Plan → TensorFlow graph: the layer table, the rewriting of steps, and the coordinator."""
