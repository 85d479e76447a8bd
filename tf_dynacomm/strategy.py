"""`DynaCommStrategy`: parameter-server training whose transfers are scheduled."""

from __future__ import annotations

import tensorflow as tf
from absl import logging

from tf_dynacomm import cluster_config, schedulers
from tf_dynacomm import plan as plan_lib
from tf_dynacomm import scope as scope_lib
from tf_dynacomm.profiling import capture
from tf_dynacomm.runtime import coordinator

_MIN_INTER_OP_THREADS = 4
STOCK = "stock"


class DynaCommStrategy(tf.distribute.ParameterServerStrategy):
    """A `tf.distribute.ParameterServerStrategy` that schedules its pulls and pushes.

    Put it in the place of `ParameterServerStrategy` and change nothing else:

        strategy = tf_dynacomm.DynaCommStrategy(cluster_resolver)
        with strategy.scope():
            model = ...
            model.compile(...)
        model.fit(..., callbacks=[tf_dynacomm.ReplanCallback()])

    Each training step pulls its variables in segments, in the order in which the layers need them,
    and pushes its gradients in segments as they become ready; the numbers stay the same, bit for
    bit. Until a trace has been taken a step uses segments of about equal bytes (see
    `runtime.starting_plan`); `ReplanCallback` then measures and re-plans.

    The workers' inter-op pool follows this process's: with one thread a running operation keeps
    the order's tokens waiting, so that at least 4 threads are set before the cluster is joined.

    Args:
      cluster_resolver: Gives the cluster. A task of type `evaluator` in it is left alone.
      variable_partitioner: As for `ParameterServerStrategy`.
      scheduler: Name of the scheduler that plans are made with (`schedulers.names()`), or
        `"stock"` to schedule nothing.
      plan: A plan to use from the start and never to replace.
      connect_timeout_s: Seconds to wait for every worker and PS to answer.

    Raises:
      ValueError: If `scheduler` is unknown, or `plan` comes with `scheduler="stock"`.
      ValueError: If the cluster has no worker or no parameter server.
      ValueError: If `connect_timeout_s` is not above 0.
      TypeError: If `cluster_resolver` is no `ClusterResolver`, or `plan` no `Plan`.
      TimeoutError: If the cluster does not answer in time.
    """

    def __init__(
        self,
        cluster_resolver: tf.distribute.cluster_resolver.ClusterResolver,
        variable_partitioner: tf.distribute.experimental.partitioners.Partitioner | None = None,
        *,
        scheduler: str = "dynacomm",
        plan: plan_lib.Plan | None = None,
        connect_timeout_s: float = 60.0,
    ):
        _check(scheduler, plan)
        _check_cluster(cluster_resolver)
        if not connect_timeout_s > 0:
            raise ValueError(f"`connect_timeout_s` ({connect_timeout_s}) must be above 0.")
        self._scheduler = scheduler
        self._plans_itself = plan is None and scheduler != STOCK
        _ensure_inter_op_threads()
        resolver = _without_evaluator(cluster_resolver)
        cluster_config.wait_for_cluster(_addresses(resolver), connect_timeout_s)
        super().__init__(resolver, variable_partitioner)
        coordinator.DynaCommCoordinator(self, plan, scheduled=scheduler != STOCK)

    def scope(self) -> scope_lib.Scope:
        """The context in which models are made; Keras 3's then train on the workers."""
        return scope_lib.Scope(self, super().scope())

    @property
    def scheduler(self) -> str:
        """Name of the scheduler that plans are made with."""
        return self._scheduler

    @property
    def plans_itself(self) -> bool:
        """Whether plans are made from measurements: not as stock, nor with a plan set by hand."""
        return self._plans_itself

    @property
    def tasks(self) -> capture.Tasks:
        """The addresses of the workers and PS tasks."""
        spec = self._cluster_resolver.cluster_spec().as_dict()
        return capture.Tasks(tuple(spec["worker"]), tuple(spec["ps"]))

    def explain(self, worker: int = 0) -> str:
        """Tells how the variables of the training step travel, or why they do not, as a table.

        Args:
          worker: The worker whose plan is told.

        Raises:
          ValueError: If there is no such worker.
          RuntimeError: If no training step has been traced yet, or none that can be planned.
        """
        workers = len(self.tasks.workers)
        if worker not in range(workers):
            raise ValueError(f"`worker` ({worker!r}) must be an integer below {workers}.")
        step = self.coordinator.training_step
        if step is None:
            raise RuntimeError(
                "There is no training step to explain yet: run one first. A step that updates its "
                "variables only in a condition, as with a loss scale, is not planned."
            )
        return step.explain(worker)

    @property
    def coordinator(self) -> coordinator.DynaCommCoordinator:
        """The strategy's coordinator, the one that `ClusterCoordinator(strategy)` gives."""
        return self._cluster_coordinator


def _check(scheduler: str, plan: plan_lib.Plan | None) -> None:
    if scheduler != STOCK and scheduler not in schedulers.names():
        names = ", ".join((*schedulers.names(), STOCK))
        raise ValueError(f"`scheduler` ({scheduler!r}) must be one of {names}.")
    if plan is not None and not isinstance(plan, plan_lib.Plan):
        raise TypeError(f"`plan` ({plan!r}) must be a Plan; Plan.load reads one from a file.")
    if plan is not None and scheduler == STOCK:
        raise ValueError('`plan` must be None with `scheduler` "stock", which follows no plan.')


def _check_cluster(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    if not isinstance(resolver, tf.distribute.cluster_resolver.ClusterResolver):
        raise TypeError(f"`cluster_resolver` ({resolver!r}) must be a ClusterResolver.")
    jobs = resolver.cluster_spec().as_dict()
    if missing := [job for job in ("worker", "ps") if not jobs.get(job)]:
        raise ValueError(
            f"`cluster_resolver` (jobs: {', '.join(jobs) or 'none'}) must name at least one "
            f"{' and one '.join(missing)}; TF_CONFIG is where TFConfigClusterResolver reads them."
        )


def _without_evaluator(
    resolver: tf.distribute.cluster_resolver.ClusterResolver,
) -> tf.distribute.cluster_resolver.ClusterResolver:
    """The same cluster without evaluator tasks, which never answer the chief."""
    spec = resolver.cluster_spec().as_dict()
    if "evaluator" not in spec:
        return resolver
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({job: tasks for job, tasks in spec.items() if job != "evaluator"}),
        task_type=resolver.task_type,
        task_id=resolver.task_id,
        rpc_layer=resolver.rpc_layer,
    )


def _addresses(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> list[str]:
    spec = resolver.cluster_spec().as_dict()
    return [address for job in ("worker", "ps") for address in spec.get(job, ())]


def _ensure_inter_op_threads() -> None:
    """Sets at least 4 inter-op threads, or warns if TensorFlow has begun with fewer."""
    threads = tf.config.threading.get_inter_op_parallelism_threads()
    if threads >= _MIN_INTER_OP_THREADS:
        return
    try:
        tf.config.threading.set_inter_op_parallelism_threads(_MIN_INTER_OP_THREADS)
    except RuntimeError:
        logging.warning(
            "TensorFlow has begun with %s inter-op threads; with fewer than %d, transfers wait for "
            "computation. Make the strategy before anything else runs, or call "
            "tf.config.threading.set_inter_op_parallelism_threads(%d) first.",
            threads or "the default number of",
            _MIN_INTER_OP_THREADS,
            _MIN_INTER_OP_THREADS,
        )
