"""Keras 3 on parameter servers: `fit`, `evaluate` and `predict` whose steps run on the workers.

Keras 3's trainer takes its steps on the chief, and so fails under a parameter-server strategy. Here
each model that is made in the strategy's scope gets entry points of its own (see `models`), which
bring the data to the workers (`data`) and schedule the model's steps there (`functions`).
`internals` alone knows Keras from within.
"""
