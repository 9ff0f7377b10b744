"""What changes over the training, as a function of the updates done."""

import tensorflow as tf

from electra_tf.pretrain.draws import Keys, progress


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
