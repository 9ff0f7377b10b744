"""Devices and workers: the only module that deals with them."""

import collections
import contextlib
import functools
import hashlib
import math
import os
import re
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

from electra_tf.util import cluster, console
from electra_tf.util.errors import UserError, reason, shorten_repr

_LOST_WORKER_ERRORS = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)
_ABOUT_WORKERS = re.compile("[Cc]ollective|[Cc]oordination|remote target|/job:")
# Its square is 1 + 18.63 / 128, in bfloat16 1 + 19 / 128.
_ROUNDING_PROBE = 1 + 9 / 128


def make_strategy(
    name: str, *, join_timeout: int = 120, heartbeat_timeout: int = 30
) -> tf.distribute.Strategy:
    """Makes the distribution strategy for a name."""
    if name == "auto":
        name = _choose_strategy()
    return {
        "one": tf.distribute.get_strategy,
        "mirrored": _mirrored,
        "multi_worker": functools.partial(
            _multi_worker, join_timeout, heartbeat_timeout
        ),
        "tpu": _tpu,
    }[name]()


def set_arithmetic(*, tensor_float_32: bool, deterministic: bool) -> None:
    """Sets the arithmetic of this process; call it before tracing."""
    if not tensor_float_32:
        tf.config.experimental.enable_tensor_float_32_execution(False)
    if deterministic:
        tf.config.experimental.enable_op_determinism()


def describe(strategy: tf.distribute.Strategy) -> str:
    """Returns the number and the device kind of replicas, as in "2 x GPU"."""
    return f"{strategy.num_replicas_in_sync} x {_device_kind()}"


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process is the chief, which writes the files."""
    return worker(strategy)[0] == 0


def worker(strategy: tf.distribute.Strategy) -> tuple[int, int]:
    """Returns the index of this process and the number of workers."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 0, 1
    resolver = strategy.cluster_resolver
    spec = resolver.cluster_spec().as_dict()
    chiefs = len(spec.get("chief", []))
    workers = chiefs + len(spec.get("worker", []))
    index = resolver.task_id
    return (index if resolver.task_type == "chief" else chiefs + index), workers


def num_local_replicas(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of replicas per worker."""
    return strategy.num_replicas_in_sync // worker(strategy)[1]


@contextlib.contextmanager
def naming_lost_workers() -> Iterator[None]:
    """Translates TensorFlow's errors about another worker."""
    try:
        yield
    except _LOST_WORKER_ERRORS as error:
        everyone = cluster.workers()
        if len(everyone) < 2 or not _ABOUT_WORKERS.search(str(error)):
            raise
        raise cluster.lost_worker_error(
            everyone, cluster.own_index(), reason(error)
        ) from error


def check_division(
    batch_sizes: Collection[int],
    num_replicas: int,
    num_steps: int,
    *,
    group_size: int = 1,
) -> None:
    """Checks that replicas can share global batches equally."""
    shares, rest = divmod(math.gcd(*batch_sizes), num_steps * group_size)
    fitting = [n for n in range(1, shares + 1) if not rest and shares % n == 0]
    if num_replicas in fitting:
        return
    kept = f", times the {group_size} rows that stay together"
    way_out = (
        "With these rows and steps the number of replicas can be "
        f"{', '.join(map(str, fitting))}."
        if fitting
        else "No number of replicas divides these batches; change "
        "--train_batch_size."
    )
    raise UserError(
        "Every global batch (`train_batch_size`) must be a multiple of the "
        "number of replicas times `gradient_accumulation_steps`"
        f"{kept if group_size > 1 else ''}. Received: "
        f"{' and '.join(map(str, sorted(batch_sizes)))} rows, {num_replicas} "
        f"replicas, gradient_accumulation_steps={num_steps}. {way_out}"
    )


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Waits until every worker has called it."""
    Workers(strategy).gather([0])


class Workers:
    """Communication between the worker processes of a strategy."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.number, self.count = worker(strategy)
        self._strategy = strategy
        self._sum = tf.function(
            self._sum_over_workers,
            input_signature=[tf.TensorSpec([self.count, None])],
            autograph=False,
        )

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Returns for each flag whether any worker has set it."""
        return tuple(self.gather(flags).any(0).tolist())

    def check_same_values(self, values: Mapping[str, str]) -> None:
        """Checks that all workers have the same values as the chief."""
        digests = [_digest(value) for value in values.values()]
        different = self._unlike_chief([_digest(" ".join(values))])
        text = {number: "another version of electra_tf" for number in different}
        if not different:  # so that all compare the same names
            names = [
                f"{name} (here {shorten_repr(values[name])})" for name in values
            ]
            text = {
                number: ", ".join(f"another {names[i]}" for i in columns)
                for number, columns in self._unlike_chief(digests).items()
            }
        if text:
            received = "; ".join(f"worker {n}: {text[n]}" for n in text)
            raise UserError(
                "Every worker must have the settings and data of worker 0; "
                f"this is worker {self.number}. Received: {received}. Nothing "
                "was trained. Give all workers the same command, data and "
                "checkpoints."
            )

    def gather(self, numbers: Sequence[float]) -> np.ndarray:
        """Returns the numbers of each worker, float32 [workers, n]."""
        rows = np.zeros([self.count, len(numbers)], np.float32)
        rows[self.number] = numbers
        return rows if self.count == 1 else self._sum(rows).numpy()

    def _unlike_chief(self, numbers: Sequence[float]) -> dict[int, list[int]]:
        """Returns worker -> indices of numbers that differ from the chief's."""
        rows = self.gather(numbers)
        differs = rows != rows[:1]
        return {
            number: np.flatnonzero(differs[number]).tolist()
            for number in range(self.count)
            if differs[number].any()
        }

    def _sum_over_workers(self, rows: tf.Tensor) -> tf.Tensor:
        """Sums float32 [...] over the workers, one replica of each."""
        replicas = num_local_replicas(self._strategy)

        def on_replica(rows: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            is_first = context.replica_id_in_sync_group % replicas == 0
            rows = tf.where(is_first, rows, tf.zeros_like(rows))
            return context.all_reduce("SUM", rows)

        total = self._strategy.run(on_replica, args=(rows,))
        return self._strategy.experimental_local_results(total)[0]


def has_accelerator() -> bool:
    """Returns whether TensorFlow sees a GPU or a TPU."""
    return _device_kind() != "CPU"


def _device_kind() -> str:
    """Returns "TPU", "GPU" or "CPU": the fastest kind this process has."""
    kinds = [k for k in ("TPU", "GPU") if tf.config.list_logical_devices(k)]
    return (kinds or ["CPU"])[0]


def compiles_updates(jit_compile: str) -> bool:
    """Returns whether updates are compiled with XLA."""
    return has_accelerator() if jit_compile == "auto" else jit_compile == "true"


@functools.cache
def has_bfloat16() -> bool:
    """Returns whether matrix products in bfloat16 are useful on this
    machine."""
    if has_accelerator():
        return True
    with tf.init_scope(), tf.device("CPU:0"):
        factor = tf.fill([64, 64], tf.constant(_ROUNDING_PROBE, tf.bfloat16))
        product = tf.matmul(tf.linalg.diag(factor[0]), factor)
        is_rounded = product.numpy()[0, 0] == 1 + 19 / 128
    if not is_rounded:
        console.warn(
            "This CPU has no instructions for bfloat16: TensorFlow would "
            "truncate instead of round, and be no faster. Matrix products are "
            "computed in float32 instead."
        )
    return bool(is_rounded)


def _digest(text: str) -> int:
    """Returns a hash of 24 bits, which float32 represents exactly."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:3])


def _choose_strategy() -> str:
    if len(cluster.workers()) > 1:
        return "multi_worker"
    several = len(tf.config.list_logical_devices("GPU")) > 1
    return "mirrored" if several else "one"


def _disable_graph_optimizer_on_cpu() -> None:
    """Makes two workers compute the same bits as two replicas of one
    process."""
    if not tf.config.list_physical_devices("GPU"):
        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )


def _mirrored() -> tf.distribute.Strategy:
    _disable_graph_optimizer_on_cpu()
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = tf.config.list_logical_devices(kind)
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _multi_worker(
    join_timeout: int, heartbeat_timeout: int
) -> tf.distribute.Strategy:
    everyone = cluster.workers()
    if not everyone:
        raise UserError(
            "--strategy=multi_worker needs the environment variable TF_CONFIG "
            "in every worker. Received: none that lists workers. Example for "
            f"worker 0 of two: {cluster.EXAMPLE}"
        )
    cluster.wait_for_all(everyone, cluster.own_index(), join_timeout)
    _disable_graph_optimizer_on_cpu()
    _set_heartbeat_timeout(everyone, heartbeat_timeout)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    # TensorFlow has replaced Python's handler by one that only logs a line.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


def _set_heartbeat_timeout(
    everyone: Sequence[cluster.Worker], seconds: int
) -> None:
    """Sets how long TensorFlow waits for workers that do not answer."""
    jobs = collections.Counter(each.kind for each in everyone)
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=everyone[0].task,
        coordinated_jobs=[
            coordination_config_pb2.CoordinatedJob(name=name, num_tasks=number)
            for name, number in jobs.items()
        ],
        cluster_register_timeout_in_ms=1000 * seconds,
        heartbeat_timeout_in_ms=1000 * seconds,
    )
    config = context.context().coordination_service
    config.cluster_register_with_barrier = True  # else the time is an hour


@functools.cache  # initializing a TPU again would clear its memory
def _tpu() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            os.environ.get("TPU_NAME", "local")  # the TPU of this machine
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise UserError(
            "--strategy=tpu found no TPU; use --strategy=auto on a machine "
            f"without one. Received: {error}"
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    if strategy.extended.num_hosts > 1:
        raise UserError(
            "--strategy=tpu needs a TPU of one host, where Python reads the "
            f"data. Received: {strategy.extended.num_hosts} hosts. Use one TPU "
            "VM."
        )
    return strategy
