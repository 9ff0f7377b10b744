"""What changes over the training, as a function of the updates done."""

import keras
import tensorflow as tf

from electra_tf.pretrain.random_keys import Keys, progress


def step_of(keys: Keys, num_train_steps: int) -> tf.Tensor:
    """Returns the updates done.

    Args:
      keys: of a batch.
      num_train_steps: all updates.

    Returns:
      float32 [B, 1]; [1, 1], all updates, for keys that are not of an update.
    """
    return tf.round(progress(keys) * num_train_steps)


def risen(step: tf.Tensor, first: int, last: int) -> tf.Tensor:
    """Rises linearly from 0 to 1.

    Args:
      step: float32, any shape, the updates done.
      first: updates after which it begins to rise.
      last: updates after which it has risen, at least `first`.

    Returns:
      float32, the same shape.
    """
    if first == last:
        return tf.cast(step >= first, tf.float32)
    return tf.clip_by_value((step - first) / (last - first), 0.0, 1.0)


@keras.saving.register_keras_serializable("electra_tf")
class RisenSteps(keras.optimizers.schedules.LearningRateSchedule):
    """Makes steps rise as the weight of a loss does.

    Adam divides by sqrt(v), with v a running mean of squared gradients. Where
    they were 0 and rise, v lags behind: however slowly the weight rises, the
    scale divides out, and for 1 / (1 - beta_2) updates steps are up to
    1 / sqrt(1 - beta_2) times what they will be. The factor is sqrt(V), with V
    what v would be of gradients of size 1 times the weight. So v counts as if
    it were that of whole gradients, and a step is to a usual one as the weight
    is to its last value.

    Args:
      first: updates after which the weight begins to rise, as in `risen`.
      last: updates after which it has risen.
      beta_2: decay of v.
    """

    def __init__(self, first: int, last: int, beta_2: float) -> None:
        self.first = first
        self.last = last
        self.beta_2 = beta_2

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        # In float64, as the first of these are small differences of large sums.
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

    def get_config(self) -> dict:
        return dict(vars(self))
