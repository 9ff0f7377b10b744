"""How long the learning rate of `fit` rises and falls."""

import warnings
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from electra_tf.model.optimization import WarmupPolynomialDecay
from electra_tf.util.errors import UserError


@keras.saving.register_keras_serializable("electra_tf")
class FittedDecay(WarmupPolynomialDecay):
    """A `WarmupPolynomialDecay` that is as long as the first `fit`.

    Args:
      learning_rate: the rate without warm-up and decay.
      warmup_proportion: share of the updates in which the rate rises from 0.
      num_train_steps: T, updates; None until `fit` counts them.
    """

    def __init__(
        self,
        learning_rate: float,
        warmup_proportion: float,
        num_train_steps: int | None = None,
    ) -> None:
        super().__init__(learning_rate, 0, 0)
        self.warmup_proportion = warmup_proportion
        self.stretch(num_train_steps)

    def stretch(self, num_train_steps: int | None) -> None:
        """Makes it as long as a training.

        Args:
          num_train_steps: T, updates; None if they are not known.
        """
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = (num_train_steps or 0) * self.warmup_proportion

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        if self.num_train_steps is None:
            raise UserError(
                "`num_train_steps` must be given where it is not `fit` of an "
                "electra_tf model that counts the updates. Received: none. "
                "Give make_optimizer(num_train_steps=epochs * batches)."
            )
        return super().__call__(step)

    def get_config(self) -> dict[str, Any]:
        names = ("learning_rate", "warmup_proportion", "num_train_steps")
        return {name: getattr(self, name) for name in names}


def begin(
    optimizer: keras.optimizers.Optimizer,
    data: tf.data.Dataset,
    arguments: Mapping[str, Any],
) -> None:
    """Makes a schedule as long as a training that begins.

    Warns if the training is longer than the schedule is, or stops where the
    rate still rises.

    Args:
      optimizer: of the training; any of Keras', too.
      data: to learn from.
      arguments: of `keras.Model.fit`.

    Raises:
      UserError: if nobody says how many batches there are.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    schedule = getattr(optimizer, "_learning_rate", None)
    if not isinstance(schedule, WarmupPolynomialDecay):
        return
    updates = _num_updates(data, arguments)
    last = int(optimizer.iterations.numpy()) + (updates or 0)
    if schedule.num_train_steps is None:
        if updates is None:
            raise UserError(
                "The number of batches must be known for a schedule as long "
                "as `fit`. Received: a dataset that does not tell it. Give "
                "make_optimizer(num_train_steps=epochs * batches), or "
                "data.apply(tf.data.experimental.assert_cardinality(batches))."
            )
        schedule.stretch(last)
    if updates:
        _check(schedule, last)


def _num_updates(
    data: tf.data.Dataset, arguments: Mapping[str, Any]
) -> int | None:
    steps = arguments.get("steps_per_epoch") or int(data.cardinality())
    epochs = arguments.get("epochs", 1) - arguments.get("initial_epoch", 0)
    return epochs * steps if steps > 0 else None


def _check(schedule: WarmupPolynomialDecay, last: int) -> None:
    """Warns of updates that learn nothing, or of a rate that only rises."""
    end, warmup = schedule.num_train_steps, schedule.num_warmup_steps
    compile_anew = (
        "compile with model.make_optimizer(), whose schedule is as long as "
        "`fit`, or give num_train_steps to it"
    )
    if last > end:
        warnings.warn(
            f"`fit` goes on to update {last}, but the learning rate is 0 from "
            f"update {end} on, where its schedule ends. To go on learning, "
            f"{compile_anew}.",
            stacklevel=4,
        )
    elif last - 1 < warmup:
        warnings.warn(
            f"`fit` ends at update {last}, inside the warm-up of {warmup:g}: "
            "the learning rate never reaches its peak. Train for longer"
            f"{f', or {compile_anew}' * (last < end)}.",
            stacklevel=4,
        )
