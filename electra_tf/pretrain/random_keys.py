"""What masks, samples and dropout of a batch are functions of.

Letters in shapes: B rows.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from electra_tf.util import seeds


class Purpose(enum.IntEnum):
    """What random numbers are drawn for: one number each, never reused."""

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


Keys = tf.Tensor | TrainingKeys | Mapping[Purpose, tf.Tensor]
"""uint32 [B], one random key a row, as in evaluation, which is at the end of
the training; or `TrainingKeys`; or the uniform numbers for each purpose
themselves, which repeats a computation on draws from elsewhere, no dropout."""


def draw(keys: Keys, purpose: Purpose, shape: tuple[int, ...]) -> tf.Tensor:
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


def position_keys(keys: Keys, purpose: Purpose, length: int) -> tf.Tensor:
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
    keys: Keys, purpose: Purpose, training: bool
) -> tf.Tensor | None:
    """Returns uint32 [B], a key a row for dropout; None where there is none."""
    if not training or isinstance(keys, Mapping):
        return None
    return seeds.fold_in(_rows(keys), purpose)


def progress(keys: Keys) -> tf.Tensor:
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
