"""Learning rate schedules: warm-up and decay, two phases, on/off.

Source: the original's model/optimization.py.
"""

import keras
import tensorflow as tf


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that stores exactly the arguments of its class."""

    def get_config(self) -> dict:
        return dict(vars(self))


@keras.saving.register_keras_serializable("electra_tf")
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

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: float,
        power: float = 1.0,
        *,
        ahead: int = 0,
    ) -> None:
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power
        self.ahead = ahead

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
class TwoSchedules(Schedule):
    """Follows one schedule up to a step, then a second one that starts at 0.

    Args:
      first: schedule before the step.
      second: schedule from the step on, of the updates since.
      switch_step: number of updates with the first.
    """

    def __init__(
        self,
        first: keras.optimizers.schedules.LearningRateSchedule,
        second: keras.optimizers.schedules.LearningRateSchedule,
        switch_step: int,
    ) -> None:
        self.first = first
        self.second = second
        self.switch_step = switch_step

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        since = tf.maximum(step - self.switch_step, 0.0)
        is_first = step < self.switch_step
        return tf.where(is_first, self.first(step), self.second(since))


@keras.saving.register_keras_serializable("electra_tf")
class Gate(Schedule):
    """Is constant on one side of a step, and 0 on the other.

    Args:
      switch_step: number of updates before the switch.
      is_open_first: whether the rate applies before the switch, or after it.
      rate: value on that side.
    """

    def __init__(
        self, switch_step: int, is_open_first: bool, *, rate: float = 1.0
    ) -> None:
        self.switch_step = switch_step
        self.is_open_first = is_open_first
        self.rate = rate

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        is_first = tf.cast(step, tf.float32) < self.switch_step
        return self.rate * tf.cast(is_first == self.is_open_first, tf.float32)
