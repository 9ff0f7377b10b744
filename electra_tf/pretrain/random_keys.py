"""Random keys of a batch, and the progress of the training.

Masks, samples and dropout are functions of the keys. Values that change over
the training are functions of the progress, which the keys of an update include.

Letters in shapes: B rows.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

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


class TrainingKeys(NamedTuple):
    """The keys of an update, [B], and the progress of the training, [B]."""

    rows: tf.Tensor
    progress: tf.Tensor


RandomKeys = tf.Tensor | TrainingKeys | Mapping[Purpose, tf.Tensor]
"""uint32 [B], one random key per row, as in evaluation, which counts as the end
of the training; or `TrainingKeys`; or the uniform numbers for each purpose, to
reproduce a computation of another program, without dropout."""


def draw(
    keys: RandomKeys, purpose: Purpose, shape: tuple[int, ...]
) -> tf.Tensor:
    """Draws uniform numbers for a purpose, [B, *shape]."""
    if isinstance(keys, Mapping):
        return keys[purpose]
    return seeds.uniform(seeds.fold_in(_rows(keys), purpose), shape)


def position_keys(keys: RandomKeys, purpose: Purpose, length: int) -> tf.Tensor:
    """Makes a key for each position, [B, length]."""
    return seeds.random_bits(seeds.fold_in(_rows(keys), purpose), (length,))


def dropout_keys(
    keys: RandomKeys, purpose: Purpose, training: bool
) -> tf.Tensor | None:
    """Returns uint32 [B], one dropout key per row; None without dropout."""
    if not training or isinstance(keys, Mapping):
        return None
    return seeds.fold_in(_rows(keys), purpose)


def progress(keys: RandomKeys) -> tf.Tensor:
    """Returns how much of the training is done, from 0 to 1, [B, 1]."""
    if isinstance(keys, TrainingKeys):
        return keys.progress[:, tf.newaxis]
    return tf.ones([1, 1])


def _rows(keys: tf.Tensor | TrainingKeys) -> tf.Tensor:
    return keys.rows if isinstance(keys, TrainingKeys) else keys


def step_of(keys: RandomKeys, num_train_steps: int) -> tf.Tensor:
    """Returns the number of updates done, [B, 1]."""
    return tf.round(progress(keys) * num_train_steps)


def linear_ramp(step: tf.Tensor, first: int, last: int) -> tf.Tensor:
    """Computes a value that rises linearly from 0 to 1."""
    if first == last:
        return tf.cast(step >= first, tf.float32)
    return tf.clip_by_value((step - first) / (last - first), 0.0, 1.0)
