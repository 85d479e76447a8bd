"""Custom training loops without Keras: what a step may do with its variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

_RATE = 0.1


@dataclasses.dataclass(frozen=True)
class Loop:
    """A step for workers.

    Attributes:
      step: What is scheduled, with an iterator over (inputs, labels).
      variables: All that it trains and changes.
      pulled: Those that the worker pulls.
      pushed: Those whose gradients are pushed in segments.
    """

    step: Callable
    variables: list[tf.Variable]
    pulled: list[tf.Variable]
    pushed: list[tf.Variable]


class Net:
    """Two layers and a logistic loss."""

    def __init__(self, units: int = 6):
        first = tf.reshape(tf.range(8.0 * units), [8, units])
        self.kernel = tf.Variable(tf.sin(first), name="first/kernel")
        self.bias = tf.Variable(tf.zeros([units]), name="first/bias")
        self.last = tf.Variable(tf.cos(first[:4]), name="last/kernel")
        self.variables = [self.kernel, self.bias, self.last]

    def loss(self, inputs, labels):
        """The mean loss of a batch."""
        hidden = tf.tanh(inputs @ self.kernel + self.bias)
        logits = tf.matmul(hidden, self.last, transpose_b=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tf.reduce_mean(losses)

    def gradients(self, batch):
        """The loss, and its gradients with respect to `variables`."""
        with tf.GradientTape() as tape:
            loss = self.loss(*batch)
        return loss, tape.gradient(loss, self.variables)

    def descend(self, batch):
        """Makes a step of gradient descent; returns the loss before it."""
        loss, gradients = self.gradients(batch)
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.assign_sub(_RATE * gradient)
        return loss


def _loop(net: Net, step: Callable, others=()) -> Loop:
    return Loop(tf.function(step), [*net.variables, *others], net.variables, net.variables)


def by_strategy_run(strategy) -> Loop:
    """The step that the guides show."""
    net = Net()
    return _loop(net, lambda iterator: strategy.run(net.descend, args=(next(iterator),)))


def by_itself(strategy) -> Loop:
    """A step without `strategy.run`."""
    del strategy
    net = Net()
    return _loop(net, lambda iterator: net.descend(next(iterator)))


def by_a_function_in_it(strategy) -> Loop:
    """The replica's part is a `tf.function` of its own."""
    net = Net()
    replica = tf.function(net.descend)
    return _loop(net, lambda iterator: strategy.run(replica, args=(next(iterator),)))


def by_a_loop_in_it(strategy) -> Loop:
    """Several batches in one call, in a loop of the graph."""
    net = Net()

    def step(iterator):
        loss = tf.constant(0.0)
        for _ in tf.range(3):
            loss += strategy.run(net.descend, args=(next(iterator),))
        return loss

    return _loop(net, step)


def by_two_batches(strategy) -> Loop:
    """Two batches in one call, one after the other: the second reads what the first wrote."""
    net = Net()

    def step(iterator):
        first, second = next(iterator), next(iterator)
        return strategy.run(net.descend, args=(first,)) + strategy.run(net.descend, args=(second,))

    return _loop(net, step)


def accumulating(strategy) -> Loop:
    """Gradients are added up, and used at every second step."""
    net = Net()
    sums = [
        tf.Variable(tf.zeros(v.shape), trainable=False, name=f"sum_{i}")
        for i, v in enumerate(net.variables)
    ]
    count = tf.Variable(0, trainable=False, name="count", dtype=tf.int64)

    def apply():
        for variable, total in zip(net.variables, sums, strict=True):
            variable.assign_sub(_RATE * total)
            total.assign(tf.zeros(total.shape))

    def replica(batch):
        loss, gradients = net.gradients(batch)
        for total, gradient in zip(sums, gradients, strict=True):
            total.assign_add(gradient)
        count.assign_add(1)
        tf.cond(count % 2 == 0, apply, lambda: None)
        return loss

    step = tf.function(lambda iterator: strategy.run(replica, args=(next(iterator),)))
    return Loop(step, [*net.variables, *sums, count], net.variables, [])


def reading_what_it_wrote(strategy) -> Loop:
    """The loss after the update is returned."""
    net = Net()

    def replica(batch):
        net.descend(batch)
        return net.loss(*batch)

    return _loop(net, lambda iterator: strategy.run(replica, args=(next(iterator),)))


def in_turn(strategy) -> Loop:
    """Two updates in one step, the second with gradients at what the first made."""
    judge, maker = Net(), Net(units=5)

    def replica(batch):
        judge.descend(batch)
        with tf.GradientTape() as tape:
            loss = maker.loss(*batch) * judge.loss(*batch)
        gradients = tape.gradient(loss, maker.variables)
        for variable, gradient in zip(maker.variables, gradients, strict=True):
            variable.assign_sub(_RATE * gradient)
        return loss

    both = [*judge.variables, *maker.variables]
    step = tf.function(lambda iterator: strategy.run(replica, args=(next(iterator),)))
    return Loop(step, both, both, both)


def with_table(strategy) -> Loop:
    """Rows of a table are looked up and updated; a lookup table translates their keys."""
    net = Net()
    rows = tf.Variable(tf.ones([50, 8]), name="rows")
    keys = tf.range(4, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys * 7), 49)

    def replica(batch):
        inputs, labels = batch
        indices = table.lookup(labels)
        with tf.GradientTape() as tape:
            loss = net.loss(inputs * tf.gather(rows, indices), labels)
        gradients = tape.gradient(loss, [*net.variables, rows])
        for variable, gradient in zip(net.variables, gradients[:-1], strict=True):
            variable.assign_sub(_RATE * gradient)
        rows.scatter_sub(tf.IndexedSlices(_RATE * gradients[-1].values, gradients[-1].indices))
        return loss

    step = lambda iterator: strategy.run(replica, args=(next(iterator),))  # noqa: E731
    return _loop(net, step, [rows])


def with_random_numbers(strategy) -> Loop:
    """Noise from a generator whose state is a variable on a PS task."""
    net = Net()
    generator = tf.random.Generator.from_seed(3)

    def replica(batch):
        inputs, labels = batch
        return net.descend((inputs + generator.normal(tf.shape(inputs), stddev=0.1), labels))

    step = lambda iterator: strategy.run(replica, args=(next(iterator),))  # noqa: E731
    return _loop(net, step, [generator.state])


def with_custom_gradient(strategy) -> Loop:
    """A function with a gradient of its own that uses a variable."""
    net = Net()
    scale = tf.Variable(tf.ones([8]), name="scale/kernel")
    net.variables.append(scale)

    @tf.custom_gradient
    def scaled(inputs):
        def gradient(upstream, variables):
            return upstream * scale, [tf.reduce_sum(upstream * inputs, axis=0) for _ in variables]

        return inputs * scale, gradient

    def replica(batch):
        inputs, labels = batch
        with tf.GradientTape() as tape:
            loss = net.loss(scaled(inputs), labels)
        for variable, gradient in zip(
            net.variables, tape.gradient(loss, net.variables), strict=True
        ):
            variable.assign_sub(_RATE * gradient)
        return loss

    return _loop(net, lambda iterator: strategy.run(replica, args=(next(iterator),)))


LOOPS = [
    by_strategy_run,
    by_itself,
    by_a_function_in_it,
    by_a_loop_in_it,
    by_two_batches,
    accumulating,
    reading_what_it_wrote,
    in_turn,
    with_table,
    with_random_numbers,
    with_custom_gradient,
]
