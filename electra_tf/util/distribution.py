"""Devices and workers: the only module that deals with them.

TensorFlow waits for missing workers for an hour, without a message and without
reacting to signals. So each worker first listens on its port itself until it
has reached the ports of all others; only then TensorFlow, which needs the port,
is started.
"""

import collections
import contextlib
import functools
import hashlib
import math
import os
import re
import signal
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

from electra_tf.util import console
from electra_tf.util.errors import LostWorkerError, UserError, listed, reason

_LOST_WORKER_ERRORS = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)
_ABOUT_WORKERS = re.compile("[Cc]ollective|[Cc]oordination|remote target|/job:")
_SECONDS_BETWEEN_TRIES = 0.5
_SECONDS_TO_JOIN = 300
SECONDS_OF_SILENCE = 30
"""After these, another worker counts as lost."""


def make_strategy(name: str) -> tf.distribute.Strategy:
    if name == "multi_worker" or (name == "auto" and len(_addresses()) > 1):
        return _multi_worker()  # before any device is initialized
    if name == "tpu":
        return _tpu()
    devices = tf.config.list_logical_devices("GPU")
    if name == "mirrored" or (name == "auto" and len(devices) > 1):
        _disable_graph_optimizer_on_cpu()
        devices = devices or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([x.name for x in devices])
    return tf.distribute.get_strategy()


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
    return _own_index(), len(_addresses())


def num_local_replicas(strategy: tf.distribute.Strategy) -> int:
    return strategy.num_replicas_in_sync // worker(strategy)[1]


@contextlib.contextmanager
def naming_lost_workers() -> Iterator[None]:
    """Translates TensorFlow's errors about another worker."""
    try:
        yield
    except _LOST_WORKER_ERRORS as error:
        text = reason(error)
        if len(_addresses()) < 2 or not _ABOUT_WORKERS.search(text):
            raise
        raise LostWorkerError(
            "Lost another worker. Give all workers the same command again: "
            f"they resume from the last checkpoint. {text[:200]}"
        ) from error


def check_division(
    batch_sizes: Collection[int],
    num_replicas: int,
    num_steps: int,
    *,
    group_size: int = 1,
) -> None:
    """Checks that replicas can share global batches equally."""
    pieces = num_replicas * num_steps * group_size
    if math.gcd(*batch_sizes) % pieces:
        raise UserError(
            f"Batches of {' and '.join(map(str, sorted(batch_sizes)))} rows do "
            f"not divide among {num_replicas} replicas x {num_steps} "
            f"micro-batches x {group_size} rows."
        )


def barrier(strategy: tf.distribute.Strategy) -> None:
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
        rows = self.gather([_digest(" ".join(values))])
        if (rows != rows[0]).any():
            raise UserError("The workers run other versions of electra_tf.")
        rows = self.gather([_digest(value) for value in values.values()])
        different = (rows != rows[0]).any(0)
        if different.any():
            names = np.array([*values])[different]
            raise UserError(f"The workers differ in {', '.join(names)}.")

    def gather(self, numbers: Sequence[float]) -> np.ndarray:
        """Returns the numbers of each worker, float32 [workers, n]."""
        rows = np.zeros([self.count, len(numbers)], np.float32)
        rows[self.number] = numbers
        return rows if self.count == 1 else self._sum(rows).numpy()

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


def _digest(text: str) -> int:
    """Returns a hash of 24 bits, which float32 represents exactly."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:3])


def _device_kind() -> str:
    """Returns "TPU", "GPU" or "CPU": the fastest kind this process has."""
    kinds = [k for k in ("TPU", "GPU") if tf.config.list_logical_devices(k)]
    return (kinds or ["CPU"])[0]


def compiles_updates(jit_compile: str) -> bool:
    if jit_compile == "auto":
        return _device_kind() != "CPU"
    return jit_compile == "true"


@functools.cache
def has_bfloat16() -> bool:
    """Returns whether products of bfloat16 are useful on this device."""
    # CPUs without its instructions truncate, not round, and are no faster.
    if _device_kind() != "CPU":
        return True
    with tf.init_scope(), tf.device("CPU:0"):
        # The square of 1 + 9 / 128 is 1 + 18.63 / 128.
        factor = tf.fill([64, 64], tf.constant(1 + 9 / 128, tf.bfloat16))
        product = tf.matmul(tf.linalg.diag(factor[0]), factor)
        is_rounded = product.numpy()[0, 0] == 1 + 19 / 128
    if not is_rounded:
        console.warn("This CPU has no bfloat16 instructions; float32 is used.")
    return bool(is_rounded)


def _disable_graph_optimizer_on_cpu() -> None:
    """Makes workers compute the same bits as replicas of one process."""
    if not tf.config.list_physical_devices("GPU"):
        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )


_job = tf.distribute.cluster_resolver.TFConfigClusterResolver


def _addresses() -> dict[tuple[str, int], str]:
    """Returns (type, index) -> address of each worker, the chief first."""
    tasks = _job().cluster_spec().as_dict()
    return {
        (kind, index): address
        for kind in ("chief", "worker")
        for index, address in enumerate(tasks.get(kind, []))
    }


def _own_index() -> int:
    """Returns the index of this process in `_addresses()`."""
    return [*_addresses()].index((_job().task_type, _job().task_id))


def _multi_worker() -> tf.distribute.Strategy:
    workers = _addresses()
    if not workers:
        raise UserError("--strategy=multi_worker needs TF_CONFIG.")
    _wait_for_all([*workers.values()], _own_index(), _SECONDS_TO_JOIN)
    _disable_graph_optimizer_on_cpu()
    jobs = collections.Counter(job for job, _ in workers)
    chief_job, _ = next(iter(workers))
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:{chief_job}/replica:0/task:0",
        coordinated_jobs=[
            coordination_config_pb2.CoordinatedJob(name=name, num_tasks=number)
            for name, number in jobs.items()
        ],
        cluster_register_timeout_in_ms=1000 * SECONDS_OF_SILENCE,
        heartbeat_timeout_in_ms=1000 * SECONDS_OF_SILENCE,
    )
    config = context.context().coordination_service
    config.cluster_register_with_barrier = True  # else the time is an hour
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    # TensorFlow has replaced Python's handler by one that only logs a line.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


def _wait_for_all(
    addresses: Sequence[str], number: int, seconds: float
) -> None:
    missing = [x for x in addresses if x != addresses[number]]
    end = time.monotonic() + seconds
    progress = console.Periodic(console.say)
    is_dual = socket.has_dualstack_ipv6()
    with socket.create_server(
        ("", int(addresses[number].rpartition(":")[2])),
        family=socket.AF_INET6 if is_dual else socket.AF_INET,
        backlog=len(addresses),
        dualstack_ipv6=is_dual,
    ):
        while missing := [x for x in missing if not _is_listening(x)]:
            if time.monotonic() > end:
                raise LostWorkerError(
                    f"No answer from {listed(missing)} within {seconds} s."
                )
            progress(lambda: f"Waiting for {listed(missing)}.")
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _is_listening(address: str) -> bool:
    """Returns whether a process listens at an address, host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 2).close()
    except OSError:
        return False
    return True


@functools.cache  # initializing a TPU again would clear its memory
def _tpu() -> tf.distribute.Strategy:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
        os.environ.get("TPU_NAME", "local")  # the TPU of this machine
    )
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)
    if strategy.extended.num_hosts > 1:  # Python reads the data on one host
        raise UserError("--strategy=tpu needs a TPU of one host.")
    return strategy
