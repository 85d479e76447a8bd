"""The data of `fit`, `evaluate` and `predict`: who reads it, and how it reaches the workers."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf
from absl import logging

from tf_dynacomm.keras3 import internals

InputFunction = Callable[[tf.distribute.InputContext], tf.data.Dataset]

_PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}


class ChiefBatches(tf.distribute.DistributedDataset):
    """Batches that the chief reads and hands out, each once, to whichever worker is free.

    Args:
      dataset: The dataset; each pass begins it anew.
    """

    def __init__(self, dataset: tf.data.Dataset):
        self._dataset = dataset

    @property
    def element_spec(self):
        """The type of a batch; `None` for a part that is missing."""
        return internals.without_optionals(self._dataset.element_spec)

    def __iter__(self) -> ChiefStream:
        return ChiefStream(self._dataset, self.element_spec)


class ChiefStream:
    """One pass over the chief's batches.

    Attributes:
      spec: The type of a batch.
    """

    def __init__(self, dataset: tf.data.Dataset, spec):
        self._dataset = dataset
        self.spec = spec

    @functools.cached_property
    def _iterator(self) -> Iterator:
        return iter(self._dataset)

    def take(self):
        """The next batch, to be an argument of a step.

        Raises:
          StopIteration: If there is none left.
        """
        return internals.without_optionals(next(self._iterator))

    def __iter__(self) -> ChiefStream:
        return self

    def __next__(self):
        """What the trainer builds a model from; it takes no batch away."""
        return self.spec


class WorkerBatches(tf.distribute.DistributedDataset):
    """Batches that each worker reads by itself, in one endless stream over all epochs.

    A worker that has come to the end of its data begins again: no step fails for want of data while
    the other workers still have some.

    Args:
      strategy: The strategy.
      dataset: What `create_per_worker_dataset` makes the workers' datasets from.
      count: How many batches all workers together take in one pass; no end if `None`.
    """

    def __init__(self, strategy, dataset, count: int | None):
        self._per_worker = strategy.coordinator.create_per_worker_dataset(dataset)
        self._count = count

    @property
    def element_spec(self):
        """The type of a batch."""
        return self._per_worker.element_spec

    @functools.cached_property
    def _iterators(self):
        return iter(self._per_worker)

    def __iter__(self) -> WorkerStream:
        return WorkerStream(self._iterators, self.element_spec, self._count)


class WorkerStream:
    """One pass over the workers' batches.

    Attributes:
      spec: `None`: a step's argument is an iterator, which knows its own type.
    """

    spec = None

    def __init__(self, iterators, element_spec, count: int | None):
        self._sources = itertools.repeat(iterators, *() if count is None else (count,))
        self._element_spec = element_spec

    def take(self):
        """The iterators; a step takes its batch from that of the worker that runs it.

        Raises:
          StopIteration: If all batches have been taken.
        """
        return next(self._sources)

    def __iter__(self) -> WorkerStream:
        return self

    def __next__(self):
        """What the trainer builds a model from; it takes no batch away."""
        return self._element_spec


class Adapter(internals.DataAdapter):
    """Hands batches for the workers to Keras's trainer.

    Args:
      batches: The batches.
      num_batches: How many there are in an epoch; `None` if that is not known.
      inner: Keras's own adapter of the data, told of epochs; `None` if there is none.
    """

    def __init__(self, batches, num_batches: int | None, inner=None):
        self._batches = batches
        self._num_batches = num_batches
        self._inner = inner

    def get_tf_dataset(self):
        """The batches."""
        return self._batches

    @property
    def num_batches(self) -> int | None:
        """How many batches an epoch has; `None` if that is not known."""
        return self._num_batches

    def on_epoch_begin(self):
        """Passes it on."""
        if self._inner is not None:
            self._inner.on_epoch_begin()

    def on_epoch_end(self):
        """Passes it on."""
        if self._inner is not None:
            self._inner.on_epoch_end()


def is_input_function(x) -> bool:
    """Whether `x` is a function of `tf.distribute.InputContext`, rather than data.

    Raises:
      TypeError: If it is a class.
    """
    if isinstance(x, type):
        raise TypeError(f"`x` ({x.__name__}) must be data or a function, not a class.")
    known = (tf.data.Dataset, keras.utils.PyDataset, internals.DataAdapter)
    return callable(x) and not isinstance(x, known)


def on_workers(strategy, x, *, steps: int | None, **options) -> Adapter:
    """Data that the workers read themselves as far as they can, for training.

    A `tf.data.Dataset` is sent to them, and each takes every n-th batch of it (n workers), or all
    if its `auto_shard_policy` is `OFF`. A function of `InputContext` runs on each of them. Arrays,
    `PyDataset`s, generators, datasets that run Python code, and datasets of which nobody can tell
    when an epoch is over, are read by the chief.

    Args:
      strategy: The strategy.
      x: The data.
      steps: Steps of an epoch; `None` for one pass over the data.
      **options: Further arguments of Keras's `get_data_adapter`.

    Raises:
      ValueError: If `steps` is `None` and the data has no end, or Keras cannot take the data.
      TypeError: If a function does not take a context or does not return a dataset.
    """
    if is_input_function(x):
        # With a number of steps there is nothing to count, and the chief need not open the files.
        dataset = None if steps else on_chief_dataset(x)
        num_batches = None if steps else _finite(dataset, "steps_per_epoch")
        if steps or num_batches:
            repeated = strategy.distribute_datasets_from_function(
                lambda context: _dataset_of(x, context).repeat()
            )
            return Adapter(WorkerBatches(strategy, repeated, num_batches), num_batches)
        x = dataset
    inner = internals.get_data_adapter(x, steps_per_epoch=steps, **options)
    dataset = inner.get_tf_dataset()
    num_batches = _num_batches(inner, dataset, steps, "steps_per_epoch")
    workers = len(strategy.tasks.workers)
    enough = num_batches >= workers if num_batches else steps
    graph = _sent(dataset) if isinstance(inner, internals.TFDatasetAdapter) and enough else None
    if graph is None:
        return Adapter(ChiefBatches(dataset), num_batches, inner)
    policy = dataset.options().experimental_distribute.auto_shard_policy
    shares = 1 if policy == tf.data.experimental.AutoShardPolicy.OFF else workers
    share = functools.partial(_share, graph, dataset.element_spec, shares)
    return Adapter(WorkerBatches(strategy, share, num_batches), num_batches, inner)


def on_chief(x, *, steps: int | None, steps_name: str, **options) -> Adapter:
    """Data that the chief reads, each batch once and in order, for evaluation and prediction.

    Args:
      x: The data.
      steps: Steps to take; `None` for one pass over the data.
      steps_name: What the caller's argument for `steps` is called.
      **options: Further arguments of Keras's `get_data_adapter`.

    Raises:
      ValueError: If `steps` is `None` and the data has no end, or Keras cannot take the data.
    """
    if is_input_function(x):
        x = on_chief_dataset(x)
    inner = internals.get_data_adapter(x, steps_per_epoch=steps, shuffle=False, **options)
    dataset = inner.get_tf_dataset()
    return Adapter(ChiefBatches(dataset), _num_batches(inner, dataset, steps, steps_name), inner)


def on_chief_dataset(input_function: InputFunction) -> tf.data.Dataset:
    """The dataset of an input function for a single reader."""
    return _dataset_of(input_function, tf.distribute.InputContext())


def _dataset_of(input_function: InputFunction, context: tf.distribute.InputContext):
    """The dataset that an input function returns.

    Raises:
      TypeError: If it does not take a context, or does not return a dataset.
    """
    try:
        inspect.signature(input_function).bind(context)
    except TypeError:
        raise TypeError(
            f"The function given as data ({input_function}) must take one argument, a "
            "tf.distribute.InputContext."
        ) from None
    dataset = input_function(context)
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"The function given as data ({input_function}) must return a tf.data.Dataset, not "
            f"{type(dataset).__name__}."
        )
    return dataset


def _num_batches(inner, dataset: tf.data.Dataset, steps: int | None, name: str) -> int | None:
    if steps is None:
        _finite(dataset, name)
        endless = isinstance(inner, internals.PyDatasetAdapter) and inner.num_batches is None
        _check_ends(not endless, name)
    return inner.num_batches


def _finite(dataset: tf.data.Dataset, steps_name: str) -> int | None:
    """How many batches the dataset has; `None` if that is not known."""
    cardinality = int(dataset.cardinality())
    _check_ends(cardinality != tf.data.INFINITE_CARDINALITY, steps_name)
    return None if cardinality == tf.data.UNKNOWN_CARDINALITY else cardinality


def _check_ends(ends: bool, steps_name: str) -> None:
    if not ends:
        raise ValueError(f"`{steps_name}` (None) must be given: the data has no end.")


def _sent(dataset: tf.data.Dataset) -> tf.Tensor | None:
    """The dataset's graph, for workers to make it from; `None` if it can only run here."""
    try:
        graph = tf.raw_ops.DatasetToGraphV2(
            input_dataset=tf.data.experimental.to_variant(dataset), strip_device_assignment=True
        )
        definition = tf.compat.v1.GraphDef.FromString(graph.numpy())
    except (tf.errors.OpError, ValueError) as e:
        logging.info("The chief reads the dataset, which cannot be sent to the workers: %s", e)
        return None
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    if _PYTHON_OPS.isdisjoint(node.op for node in nodes):
        return graph
    logging.info("The chief reads the dataset, since it runs Python code.")
    return None


def _share(graph: tf.Tensor, element_spec, shares: int) -> tf.data.Dataset:
    """A worker's share of the dataset that `graph` makes; runs on the worker."""
    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph)
    dataset = tf.data.experimental.from_variant(variant, element_spec)
    if shares > 1:
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        dataset = dataset.shard(shares, worker)
    return dataset.repeat()
