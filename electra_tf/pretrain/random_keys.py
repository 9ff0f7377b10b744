"""Random keys of a batch, and how far the training is.

Masks, samples and dropout are functions of the keys; what changes over the
training is one of the updates done, which the keys of an update tell.

Letters in shapes: B rows.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.util import seeds


class Purpose(enum.IntEnum):
    """Purposes of random numbers: one number each, never reused."""

    MASK_POSITIONS = 0
    MASK_CONTENT = 1
    RANDOM_TOKENS = 2
    SAMPLE = 3
    GENERATOR_DROPOUT = 4
    DISCRIMINATOR_DROPOUT = 5
    CANDIDATES = 16
    CROP = 17
    CROP_DROPOUT = 18
    SENTENCE = 19


class TrainingKeys(NamedTuple):
    """The keys of an update, and how far the training is.

    Attributes:
      rows: uint32 [B], one random key a row.
      progress: float32 [B], the share of all updates that are done; the same
        in each row, and one a row so that rows can be split.
    """

    rows: tf.Tensor
    progress: tf.Tensor


RandomKeys = tf.Tensor | TrainingKeys | Mapping[Purpose, tf.Tensor]
"""uint32 [B], one random key a row, as in evaluation, which is at the end of
the training; or `TrainingKeys`; or the uniform numbers for each purpose
themselves, which repeats a computation on those of another program, without
dropout."""


def draw(
    keys: RandomKeys, purpose: Purpose, shape: tuple[int, ...]
) -> tf.Tensor:
    """Draws uniform numbers for a purpose.

    Args:
      keys: one random key a row, or the numbers themselves.
      purpose: of the numbers.
      shape: of a row's numbers.

    Returns:
      float32 [B, *shape] in [0, 1).
    """
    if isinstance(keys, Mapping):
        return keys[purpose]
    return seeds.uniform(seeds.fold_in(_rows(keys), purpose), shape)


def position_keys(keys: RandomKeys, purpose: Purpose, length: int) -> tf.Tensor:
    """Makes a key for each position, where a row's numbers are too many.

    Args:
      keys: one random key a row, or the positions' keys themselves.
      purpose: of the numbers.
      length: of a row.

    Returns:
      uint32 [B, length].
    """
    if isinstance(keys, Mapping):
        return keys[purpose]
    return seeds.random_bits(seeds.fold_in(_rows(keys), purpose), (length,))


def dropout_keys(
    keys: RandomKeys, purpose: Purpose, training: bool
) -> tf.Tensor | None:
    """Returns uint32 [B], a key a row for dropout; None where there is none."""
    if not training or isinstance(keys, Mapping):
        return None
    return seeds.fold_in(_rows(keys), purpose)


def progress(keys: RandomKeys) -> tf.Tensor:
    """Returns how much of the training is done, from 0 to 1.

    What changes over the training is a function of it, as of the keys: so it
    is right under micro-batches, on any replica and after a resume.

    Args:
      keys: of a batch.

    Returns:
      float32 [B, 1]; [1, 1], of ones, for keys that are not of an update.
    """
    if isinstance(keys, TrainingKeys):
        return keys.progress[:, tf.newaxis]
    return tf.ones([1, 1])


def _rows(keys: tf.Tensor | TrainingKeys) -> tf.Tensor:
    return keys.rows if isinstance(keys, TrainingKeys) else keys


def step_of(keys: RandomKeys, num_train_steps: int) -> tf.Tensor:
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
