"""Checks of what the methods of `ElectraPretrainer` are given."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import keras
import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.networks import ElectraDiscriminator, ElectraGenerator
from electra_tf.model.optimization import AdamWeightDecayOptimizer
from electra_tf.util import distribution
from electra_tf.util.errors import ElectraWarning, UserError

Arguments = Mapping[str, Any]
"""Arguments of `keras.Model.fit`."""
_TAKEN = {
    "fit": (
        "epochs",
        "initial_epoch",
        "steps_per_epoch",
        "verbose",
        "shuffle",
        "validation_freq",
        "validation_steps",
    ),
    "evaluate": ("verbose", "return_dict"),
}
_OF_APPLY = (
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "use_ema",
    "loss_scale_factor",
    "gradient_accumulation_steps",
)
"""Options of an optimizer that only `apply` heeds, not `apply_reduced`."""
_INSTEAD = {
    "validation_batch_size": "Set eval_batch_size in the configuration.",
    "validation_split": "Give held-out texts as validation_data.",
}


def check_networks(
    generator: ElectraGenerator,
    discriminator: ElectraDiscriminator,
    config: Mapping[str, Any] | None,
) -> None:
    """Checks the arguments of `from_networks`."""
    for name, given, cls in (
        ("generator", generator, ElectraGenerator),
        ("discriminator", discriminator, ElectraDiscriminator),
    ):
        if not isinstance(given, cls):
            raise UserError(
                f"`{name}` must be an {cls.__name__}. Received: "
                f"{type(given).__name__}. Give generator=, discriminator=."
            )
    if not isinstance(config, Mapping | None):
        raise UserError(
            "`config` must be a dict of flags, as the sizes are those of the "
            f"networks. Received: {type(config).__name__}."
        )
    for name in ("init_checkpoint", "generator_checkpoint"):
        if (config or {}).get(name):
            raise UserError(
                f"`{name}` must not be set, as the weights are those of "
                f"the networks. Received: {name}={config[name]!r}."
            )
    if discriminator.reader is None:
        raise UserError(
            "The discriminator must have its vocabulary. Received: "
            f"{discriminator.name}, which has none."
        )


def check_optimizer(
    optimizer: keras.optimizers.Optimizer, variables: Sequence[keras.Variable]
) -> None:
    """Checks that an update heeds all that an optimizer is."""
    if not isinstance(optimizer, AdamWeightDecayOptimizer):
        raise UserError(
            "`optimizer` must be an AdamWeightDecayOptimizer, which clips "
            "after the sum over replicas. Received: "
            f"{type(optimizer).__name__}. Leave it out for that of the "
            "configuration: learning_rate, weight_decay_rate, ..."
        )
    options = {name: getattr(optimizer, name) for name in _OF_APPLY}
    given = [f"{name}={value}" for name, value in options.items() if value]
    if given:
        raise UserError(
            "`optimizer` must not have options of Keras, which an update "
            f"ignores. Received: {', '.join(given)}. Set clip_norm, precision "
            "or gradient_accumulation_steps in the configuration."
        )
    if not optimizer.can_update(variables):
        raise UserError(
            "`optimizer` must be new, or that of the variables to train. "
            f"Received: {optimizer.name}, built for others. Make a new one "
            "for each model, and call `compile` after weights are frozen or "
            "unfrozen."
        )


def check_arguments(method: str, arguments: Arguments) -> None:
    """Checks that a method takes the further arguments that it is given."""
    taken = _TAKEN[method]
    refused = [
        name
        for name, value in arguments.items()
        if name not in taken and value is not None
    ]
    if refused:
        ways = [_INSTEAD[name] for name in refused if name in _INSTEAD]
        raise UserError(
            f"Further arguments of `{method}` must be among {', '.join(taken)} "
            "(texts have no labels and no weights). Received: "
            f"{', '.join(refused)}. {' '.join(ways) or 'Leave it out.'}"
        )


def refuse(method: str, instead: str) -> NoReturn:
    """Refuses a method of Keras that takes a single batch."""
    raise UserError(
        f"Batches must be those of a dataset. Received: {method}. Call "
        f"`{instead}` with a tf.data.Dataset, of one batch if need be."
    )


def check_division(
    data: tf.data.Dataset,
    config: PretrainingConfig,
    *,
    num_replicas: int,
    group_size: int,
) -> None:
    """Checks that batches can be divided as those of `run_pretraining`."""
    if int(data.cardinality()) == 0:
        raise UserError(
            "There must be at least one batch. Received: an empty dataset. "
            "Give more text; `drop_remainder` drops an incomplete batch."
        )
    num_steps = config.runtime.gradient_accumulation_steps
    num_rows, length = data.element_spec.input_ids.shape.with_rank(2)
    if length is None:
        raise UserError(
            "All batches must have rows of one length. Received: a dataset "
            "whose rows have any number of tokens. Make it with "
            '.padded_batch(n, {"input_ids": '
            f"[{config.corpus.max_seq_length}]}})."
        )
    if num_rows:
        distribution.check_division(
            {num_rows}, num_replicas, num_steps, group_size=group_size
        )
    elif num_steps * group_size > 1:
        raise UserError(
            f"Batches must all have a multiple of {num_steps * group_size} "
            "rows (`gradient_accumulation_steps`, times the rows that stay "
            "together). Received: a dataset whose batches have any number of "
            "rows. Make it with .batch(n, drop_remainder=True)."
        )


def check_blocks(
    data: tf.data.Dataset, arguments: Arguments, steps_per_execution: int
) -> None:
    """Checks that each block of updates has all its batches."""
    size, steps = steps_per_execution, _steps_per_epoch(data, arguments)
    if size > 1 and (steps <= 0 or steps % size):
        known = f"{steps:,}" if steps > 0 else "an unknown number of"
        raise UserError(
            "`steps_per_execution` must divide the batches of an epoch. "
            f"Received: steps_per_execution={size}, {known} batches. Set "
            "steps_per_epoch to a multiple of it."
        )


def warn_of_schedule(
    data: tf.data.Dataset,
    arguments: Arguments,
    config: PretrainingConfig,
    *,
    first_step: int,
) -> None:
    """Warns if the learning rate reaches 0 early, or only rises."""
    steps = _steps_per_epoch(data, arguments)
    epochs = arguments.get("epochs", 1) - arguments.get("initial_epoch", 0)
    last = first_step + max(0, steps) * epochs
    end = config.training.num_train_steps
    warmup = config.optimizer.num_warmup_steps
    if steps > 0 and not warmup < last <= end:
        warnings.warn(
            f"`fit` ends at update {last:,}, but the learning rate rises until "
            f"{warmup:,} (num_warmup_steps) and falls to 0 at {end:,} "
            "(num_train_steps). Configure a schedule that is as long as `fit`.",
            ElectraWarning,
            stacklevel=3,
        )


def _steps_per_epoch(data: tf.data.Dataset, arguments: Arguments) -> int:
    """Returns the number of updates in an epoch; below 0 if not known."""
    return arguments.get("steps_per_epoch") or int(data.cardinality())
