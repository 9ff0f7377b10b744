"""Settings and weights on which all workers of a run must agree, as strings."""

import dataclasses
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from electra_tf.checkpoint.architecture import STEP
from electra_tf.checkpoint.bundles import Checkpoints
from electra_tf.config.optimizer import ComputeConfig
from electra_tf.util import distribution
from electra_tf.util.flags import flatten

SHARED = frozenset(
    {
        "do_eval",
        "do_train",
        "eval_batch_size",
        "gradient_accumulation_steps",
        "heartbeat_timeout",
        "iterations_per_loop",
        "save_checkpoints_steps",
    }
)
"""Fields of the free parts of any configuration that workers must share."""


def join_workers(
    runtime: ComputeConfig, settings: Mapping[str, str]
) -> tf.distribute.Strategy:
    """Makes the strategy of a run, once all its workers share the settings."""
    strategy = distribution.make_strategy(
        runtime.strategy,
        join_timeout=runtime.join_timeout,
        heartbeat_timeout=runtime.heartbeat_timeout,
    )
    distribution.Workers(strategy).check_same_values(settings)
    return strategy


def settings(
    config: Any,  # noqa: ANN401 (a configuration with FREE_PARTS)
    shared: Collection[str],
) -> dict[str, str]:
    """Returns field -> value of the settings that affect computation."""
    parts = dataclasses.asdict(config)
    free = flatten({name: parts.pop(name) for name in config.FREE_PARTS})
    values = flatten(parts) | {name: free[name] for name in sorted(shared)}
    return {name: repr(value) for name, value in values.items()}


def weights(store: Checkpoints) -> dict[str, str]:
    """Returns step and digest of the variables at the start of a training."""
    checksum = 0
    for variable in store.variables.values():
        checksum = zlib.crc32(variable.numpy().tobytes(), checksum)
    return {
        "step": str(store.variables[STEP].numpy()),
        "weights": f"{checksum:08x}",
    }
