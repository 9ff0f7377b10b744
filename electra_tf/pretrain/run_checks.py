"""Checks of a run before it trains: devices, directory, inputs."""

import contextlib
from collections.abc import Iterator, Mapping

import tensorflow as tf

from electra_tf.config.objectives import get_class
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.data.reading import Records
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import agreement
from electra_tf.training import callbacks
from electra_tf.util import (
    config_files,
    console,
    distribution,
    files,
    fingerprints,
    storage,
)
from electra_tf.util.errors import UserError
from electra_tf.util.locks import lock_directory

_WAY_OUT = (
    "give another --model_name, with --init_checkpoint={} to continue from "
    "its weights, slots and step"
)


def check(config: PretrainingConfig, strategy: tf.distribute.Strategy) -> None:
    """Checks the configuration against the objective and the devices."""
    name = config.objective.objective
    model_class = get_class(name)
    model_class.check(config)
    is_logged = config.run.do_train and distribution.is_chief(strategy)
    if is_logged and config.runtime.tensorboard:
        callbacks.check_tensorboard()
    group_size = model_class.batch_group_size(config)
    distribution.check_division(
        {phase.batch_size for phase in config.phases},
        strategy.num_replicas_in_sync,
        config.runtime.gradient_accumulation_steps,
        group_size=group_size,
    )
    if config.runtime.eval_batch_size % group_size:
        raise UserError(
            f"`eval_batch_size` must be a multiple of {group_size}, the rows "
            f"that stay together with objective={name}. Received: "
            f"eval_batch_size={config.runtime.eval_batch_size}."
        )


@contextlib.contextmanager
def own_directory(config: PretrainingConfig) -> Iterator[None]:
    """Locks the model directory while it is entered."""
    model_dir = storage.as_path(config.run.model_dir)
    lock = lock_directory(model_dir, "lock", "give another --model_name")
    with files.directory_removed_if_empty(model_dir), lock:
        path = model_dir / config_files.CONFIG_FILE
        if storage.exists(path):
            # Its digest is compared, if known: it may have been moved.
            is_known = "vocabulary" in fingerprints.stored(model_dir)
            config_files.check_same_experiment(
                path,
                config,
                free_fields=["vocab_file"] if is_known else [],
                way_out=_WAY_OUT.format(model_dir),
            )
        yield


def digests_of(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    train: Mapping[int, Records],
) -> fingerprints.Digests:
    """Returns the digests of the inputs that a start depends on."""
    digests = {"vocabulary": vocabulary.sha256}
    if config.run.do_train:
        digests |= agreement.record_digests(train)
    return digests


def check_inputs(
    config: PretrainingConfig,
    digests: fingerprints.Digests,
    *,
    write: bool = False,
) -> None:
    """Checks that a run is resumed with the inputs that it began with."""
    model_dir = storage.as_path(config.run.model_dir)
    fingerprints.check(
        model_dir,
        digests,
        way_out=_WAY_OUT.format(model_dir),
        write=write,
    )


def warn_of_warmup(config: PretrainingConfig) -> None:
    """Warns if the learning rate never reaches its peak, in any stage."""
    num_steps = config.training.num_train_steps
    first = get_class(config.objective.objective).generator_steps(config)
    if first:
        num_steps = min(first, num_steps - first)
    warmup = config.optimizer.num_warmup_steps
    if warmup >= num_steps:
        console.warn(
            "The learning rate never reaches --learning_rate: it rises for "
            f"{warmup:,} updates, of {num_steps:,} in the training or in a "
            "stage of it. Lower --num_warmup_steps; the paper's is 1 % to 3 % "
            "of the updates."
        )
