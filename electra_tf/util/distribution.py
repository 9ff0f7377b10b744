"""Where a run computes: the only file that knows devices and workers."""

import functools
import json
import os

import tensorflow as tf

from electra_tf.util import console
from electra_tf.util.errors import UserError

_ONE_AND_NINE = 1 + 9 / 128  # squared: 1 + 18.63 / 128, in bfloat16 1 + 19/128


def make_strategy(name: str) -> tf.distribute.Strategy:
    """Makes the distribution strategy for a name.

    Args:
      name: "one" device; "mirrored" over the GPUs of this machine, or over
        its logical CPU devices where it has none; "multi_worker" over the
        machines that the TF_CONFIG environment variable lists; "tpu"; "auto"
        for multi_worker with such a TF_CONFIG, else mirrored with several
        GPUs, else one.

    Returns:
      The strategy. The same training step runs under all of them.

    Raises:
      UserError: if what the name needs is not there.
    """
    if name == "auto":
        name = _automatic()
    return {
        "one": tf.distribute.get_strategy,
        "mirrored": _mirrored,
        "multi_worker": _multi_worker,
        "tpu": _tpu,
    }[name]()


def describe(strategy: tf.distribute.Strategy) -> str:
    """Says what computes, as in "2 x GPU"."""
    kinds = [k for k in ("TPU", "GPU") if tf.config.list_logical_devices(k)]
    return f"{strategy.num_replicas_in_sync} x {(kinds or ['CPU'])[0]}"


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Says whether this process is the one that writes files."""
    return worker(strategy)[0] == 0


def worker(strategy: tf.distribute.Strategy) -> tuple[int, int]:
    """Returns this process's number, and the number of all workers."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 0, 1
    resolver = strategy.cluster_resolver
    spec = resolver.cluster_spec().as_dict()
    chiefs = len(spec.get("chief", []))
    workers = chiefs + len(spec.get("worker", []))
    index = resolver.task_id
    return (index if resolver.task_type == "chief" else chiefs + index), workers


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Waits until every worker has come here."""
    if worker(strategy)[1] == 1:
        return

    @tf.function
    def meet() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        return context.all_reduce("SUM", tf.constant(1.0))

    strategy.run(meet)


def has_accelerator() -> bool:
    """Says whether TensorFlow sees a GPU or a TPU."""
    return bool(
        tf.config.list_logical_devices("GPU")
        or tf.config.list_logical_devices("TPU")
    )


@functools.cache
def has_bfloat16() -> bool:
    """Says whether matrix products in bfloat16 are of use on this machine.

    On a CPU without instructions for it TensorFlow's product truncates where
    it should round, which shrinks every sum by half a unit in its last place,
    and is no faster than float32's. There, a warning is given once.
    """
    if has_accelerator():
        return True
    with tf.init_scope(), tf.device("CPU:0"):
        factor = tf.fill([64, 64], tf.constant(_ONE_AND_NINE, tf.bfloat16))
        product = tf.matmul(tf.linalg.diag(factor[0]), factor)
        is_rounded = product.numpy()[0, 0] == 1 + 19 / 128
    if not is_rounded:
        console.warn(
            "This CPU has no instructions for bfloat16: TensorFlow would "
            "truncate what it should round, and be no faster. What is asked "
            "for in bfloat16 is computed in float32."
        )
    return bool(is_rounded)


def _automatic() -> str:
    if len(_cluster()) > 1:
        return "multi_worker"
    several = len(tf.config.list_logical_devices("GPU")) > 1
    return "mirrored" if several else "one"


def _cluster() -> list[str]:
    """Returns the addresses of the training workers in TF_CONFIG."""
    text = os.environ.get("TF_CONFIG", "")
    try:
        cluster = json.loads(text or "{}").get("cluster", {})
    except (ValueError, AttributeError) as error:
        raise UserError(
            "TF_CONFIG must be a JSON dictionary with the keys `cluster` and "
            f"`task`. Received: {text!r}"
        ) from error
    return [*cluster.get("chief", []), *cluster.get("worker", [])]


def _keep_graphs_alike() -> None:
    """Makes two workers compute the bits of two replicas of one process.

    On CPUs the graph optimizer rearranges constants differently in a graph
    with one replica and in one with two, which changes the last bit.
    """
    if not tf.config.list_physical_devices("GPU"):
        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )


def _mirrored() -> tf.distribute.Strategy:
    _keep_graphs_alike()
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = tf.config.list_logical_devices(kind)
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _multi_worker() -> tf.distribute.Strategy:
    if not _cluster():
        raise UserError(
            "--strategy=multi_worker needs the environment variable TF_CONFIG "
            "in every worker. Received: none. Example for worker 0 of two: "
            'TF_CONFIG=\'{"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
            '"task": {"type": "worker", "index": 0}}\''
        )
    _keep_graphs_alike()
    return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise UserError(
            "--strategy=tpu found no TPU; use --strategy=auto on a machine "
            f"without one. Received: {error}"
        ) from error
    return tf.distribute.TPUStrategy(resolver)
