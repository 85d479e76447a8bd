"""Every use of private TensorFlow API in `runtime` for scheduling, each with what it relies on."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.distribute.coordinator import cluster_coordinator, coordinator_context


class Closure(cluster_coordinator.Closure):
    """A closure whose function is chosen when it runs, for the worker that runs it.

    Relies on `Closure.__init__` tracing the function into `_concrete_function`; on `execute_on`
    calling `_function` in the worker's thread, inside the worker's dispatch context, and returning
    when the step has ended; on `mark_cancelled` being called for a step that never began; and on
    errors being given to the result through `maybe_call_with_output_remote_value`.
    """

    def __init__(self, function, cancellation_mgr, args, kwargs, runner_of, why_cancelled):
        super().__init__(function, cancellation_mgr, args=args, kwargs=kwargs)
        runner = runner_of(self._concrete_function)

        def run(*args, **kwargs):
            worker = coordinator_context.get_current_dispatch_context().worker_index
            return runner(worker, *args, **kwargs)

        self._function = cancellation_mgr.get_cancelable_function(run)
        self._why_cancelled = why_cancelled
        self._cancelled = False

    def execute_on(self, worker):
        """Runs the step; one that is cancelled stays quiet, as TensorFlow does not log those."""
        self._cancelled = False
        try:
            super().execute_on(worker)
        except tf.errors.CancelledError:
            self._cancelled = True
            raise

    def mark_cancelled(self):
        """Notes that the step never begins."""
        self._cancelled = True
        super().mark_cancelled()

    def maybe_call_with_output_remote_value(self, method):
        """Tells whoever waits for the result of a cancelled step why there will be none."""
        error = self._why_cancelled() if self._cancelled else None
        return super().maybe_call_with_output_remote_value(
            method if error is None else lambda result: result._set_error(error)
        )


class Cluster(cluster_coordinator.Cluster):
    """A cluster that schedules `Closure`s of the kind above.

    Relies on `schedule` being the only maker of training closures, and on the closure queue's `put`
    and its cancellation manager.
    """

    def __init__(self, strategy, runner_of, why_cancelled):
        super().__init__(strategy)
        self._runner_of = runner_of
        self._why_cancelled = why_cancelled

    def schedule(self, function, args, kwargs):
        """Queues a closure; returns its `RemoteValue`."""
        manager = self.closure_queue._cancellation_mgr
        closure = Closure(function, manager, args, kwargs, self._runner_of, self._why_cancelled)
        result = closure.build_output_remote_value()
        self.closure_queue.put(closure)
        return result


class Coordinator(tf.distribute.coordinator.ClusterCoordinator):
    """A coordinator whose steps run through `runner_of(concrete_function)(worker, *args)`.

    Steps that are cancelled before they begin fail with what `why_cancelled()` gives; as under
    stock if that is `None`.

    Relies on `ClusterCoordinator.__new__` giving the strategy's one coordinator, on
    `_has_initialized` making `__init__` run once, and on `_cluster` being used for all else.
    """

    def __new__(cls, strategy, *args, **kwargs):
        """Gives the strategy's one coordinator."""
        return super().__new__(cls, strategy)

    def __init__(self, strategy, runner_of, why_cancelled):
        if not getattr(self, "_has_initialized", False):
            self._strategy = strategy
            strategy.extended._used_with_coordinator = True
            self._cluster = Cluster(strategy, runner_of, why_cancelled)
            self._has_initialized = True
