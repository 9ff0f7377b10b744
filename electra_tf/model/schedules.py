"""Learning rate schedules: warm-up and decay, two phases, on/off, rising.

Source: the original's model/optimization.py.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import keras
import tensorflow as tf


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that stores exactly the arguments of its class."""

    def get_config(self) -> dict:
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**restored(config))


def restored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Restores the schedules in what `get_config` returned."""
    return {
        name: keras.saving.deserialize_keras_object(value)
        if isinstance(value, Mapping)
        else value
        for name, value in values.items()
    }


@keras.saving.register_keras_serializable("electra_tf")
@dataclasses.dataclass(eq=False)
class WarmupPolynomialDecay(Schedule):
    """Multiplies linear warm-up and polynomial decay, as the original does.

    rate(s) = learning_rate * (1 - min(s, T) / T)^power * min(1, s / W), with
    s the updates done, T all updates and W the warm-up. The first update has
    rate 0 if there is a warm-up.

    Differs: the original reads s while another operation increments it, in no
    fixed order, and mostly gets s + 1. `ahead` reproduces that.

    Args:
      learning_rate: peak, the rate without either factor.
      num_train_steps: T, updates.
      num_warmup_steps: W, updates, may be fractional; 0 for no warm-up.
      power: 1 for linear decay, 0 for none.
      ahead: added to s, updates.
    """

    learning_rate: float
    num_train_steps: int
    num_warmup_steps: float
    power: float = 1.0
    ahead: int = dataclasses.field(default=0, kw_only=True)

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32) + self.ahead
        total = float(self.num_train_steps)
        rate = self.learning_rate * tf.pow(
            1.0 - tf.minimum(step, total) / total, self.power
        )
        if self.num_warmup_steps:
            rate *= tf.minimum(1.0, step / float(self.num_warmup_steps))
        return rate


@keras.saving.register_keras_serializable("electra_tf")
@dataclasses.dataclass(eq=False)
class TwoSchedules(Schedule):
    """Follows one schedule up to a step, then a second one that starts at 0."""

    first: keras.optimizers.schedules.LearningRateSchedule
    second: keras.optimizers.schedules.LearningRateSchedule
    switch_step: int

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        since = step - self.switch_step
        return tf.where(since < 0, self.first(step), self.second(since))


@keras.saving.register_keras_serializable("electra_tf")
@dataclasses.dataclass(eq=False)
class Gate(Schedule):
    """Is constant on one side of a step, and 0 on the other."""

    switch_step: int
    is_open_first: bool
    rate: float = dataclasses.field(default=1.0, kw_only=True)

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        is_first = tf.cast(step, tf.float32) < self.switch_step
        return self.rate * tf.cast(is_first == self.is_open_first, tf.float32)


@keras.saving.register_keras_serializable("electra_tf")
@dataclasses.dataclass(eq=False)
class RisenSteps(Schedule):
    """Factor of the learning rate while the weight of a loss rises."""

    first: int
    last: int
    beta_2: float

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        # In float64: the first values are small differences of large sums.
        decay, gap = tf.constant(self.beta_2, tf.float64), 1 - self.beta_2
        length = max(1, self.last - self.first)
        since = tf.cast(step, tf.float64) - (self.last - length)
        risen_for = tf.clip_by_value(since, 0.0, length)
        mean = (
            risen_for**2
            - 2 * self.beta_2 / gap * risen_for
            + self.beta_2 * (1 + self.beta_2) / gap**2 * (1 - decay**risen_for)
        ) / length**2
        missing = (1 - mean) * decay ** tf.maximum(since - length, 0.0)
        return tf.cast(tf.sqrt(tf.maximum(1 - missing, 0.0)), tf.float32)
