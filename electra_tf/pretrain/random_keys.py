"""Random keys of a batch, and the progress of the training.

Masks, samples and dropout are functions of the keys. Values that change over
the training are functions of the progress, which the keys of an update include.

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
    """The keys of an update, and the progress of the training.

    Attributes:
      rows: uint32 [B], one random key per row.
      progress: float32 [B], the share of all updates that are done; repeated
        for each row so that batches can be split.
    """

    rows: tf.Tensor
    progress: tf.Tensor


RandomKeys = tf.Tensor | TrainingKeys | Mapping[Purpose, tf.Tensor]
"""uint32 [B], one random key per row, as in evaluation, which counts as the end
of the training; or `TrainingKeys`; or the uniform numbers for each purpose, to
reproduce a computation of another program, without dropout."""


def draw(
    keys: RandomKeys, purpose: Purpose, shape: tuple[int, ...]
) -> tf.Tensor:
    """Draws uniform numbers for a purpose.

    Args:
      keys: one random key per row, or the numbers themselves.
      purpose: purpose of the numbers.
      shape: shape of the numbers of one row.

    Returns:
      float32 [B, *shape] in [0, 1).
    """
    if isinstance(keys, Mapping):
        return keys[purpose]
    return seeds.uniform(seeds.fold_in(_rows(keys), purpose), shape)


def position_keys(keys: RandomKeys, purpose: Purpose, length: int) -> tf.Tensor:
    """Makes a key for each position, if a row needs too many numbers at once.

    Args:
      keys: one random key per row, or the positions' keys themselves.
      purpose: purpose of the numbers.
      length: length of a row.

    Returns:
      uint32 [B, length].
    """
    if isinstance(keys, Mapping):
        return keys[purpose]
    return seeds.random_bits(seeds.fold_in(_rows(keys), purpose), (length,))


def dropout_keys(
    keys: RandomKeys, purpose: Purpose, training: bool
) -> tf.Tensor | None:
    """Returns uint32 [B], one dropout key per row; None without dropout."""
    if not training or isinstance(keys, Mapping):
        return None
    return seeds.fold_in(_rows(keys), purpose)


def progress(keys: RandomKeys) -> tf.Tensor:
    """Returns how much of the training is done, from 0 to 1.

    Values that change over the training are functions of it, so that they are
    right in micro-batches, on any replica and after a resume.

    Args:
      keys: keys of a batch.

    Returns:
      float32 [B, 1]; ones, [1, 1], for keys that are not of an update.
    """
    if isinstance(keys, TrainingKeys):
        return keys.progress[:, tf.newaxis]
    return tf.ones([1, 1])


def _rows(keys: tf.Tensor | TrainingKeys) -> tf.Tensor:
    return keys.rows if isinstance(keys, TrainingKeys) else keys


def step_of(keys: RandomKeys, num_train_steps: int) -> tf.Tensor:
    """Returns the number of updates done.

    Args:
      keys: keys of a batch.
      num_train_steps: number of all updates.

    Returns:
      float32 [B, 1]; [1, 1], all updates, for keys that are not of an update.
    """
    return tf.round(progress(keys) * num_train_steps)


def linear_ramp(step: tf.Tensor, first: int, last: int) -> tf.Tensor:
    """Computes a value that rises linearly from 0 to 1.

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
    """Factor of the learning rate while the weight of a loss rises.

    Adam divides by sqrt(v), where v is a running mean of squared gradients. If
    gradients rise from 0, v lags behind: however slowly the weight rises, the
    scale cancels, and for 1 / (1 - beta_2) updates steps are up to
    1 / sqrt(1 - beta_2) times as large as later. The factor is sqrt(V), where V
    is the v of gradients of size 1 times the weight. It makes up for the small
    v, so that a step is to a usual one as the weight is to its last value.

    Args:
      first: updates after which the weight begins to rise, as in `linear_ramp`.
      last: updates after which it has risen.
      beta_2: decay of v.
    """

    def __init__(self, first: int, last: int, beta_2: float) -> None:
        self.first = first
        self.last = last
        self.beta_2 = beta_2

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

    def get_config(self) -> dict:
        return dict(vars(self))
