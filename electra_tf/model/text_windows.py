"""Overlapping windows, for texts that are longer than a row.

Each token takes its scores from the window where the shorter of its two
contexts, left and right, is longest; on ties from the first. Nothing is cut.

Letters in shapes: B texts, W windows of all texts.
"""

from typing import NamedTuple

import tensorflow as tf


class Windows(NamedTuple):
    """Tokens that are read together, in the order of texts and tokens.

    Shapes: texts [W], starts [W], ends [W], score_starts [W], score_ends [W].
    """

    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    score_starts: tf.Tensor
    score_ends: tf.Tensor


def windows(num_tokens: tf.Tensor, size: int) -> Windows:
    """Covers texts with windows, each half a window after the one before.

    Shapes: num_tokens [B].
    """
    step = max(1, size // 2)
    lasts = tf.maximum(num_tokens - size, 0)  # where each last window starts
    counts = tf.where(num_tokens > 0, 1 - (-lasts // step), 0)
    numbers = tf.ragged.range(counts)  # [B, (windows)]
    texts = numbers.value_rowids()
    starts = tf.minimum(step * numbers.values, tf.gather(lasts, texts))
    num_tokens = tf.gather(num_tokens, texts)
    ends = tf.minimum(starts + size, num_tokens)
    # The shorter sides of two windows are equal halfway between their middles.
    is_first = numbers.values == 0
    before = tf.roll(ends, 1, 0)
    score_starts = tf.where(is_first, 0, (before - 1 + starts) // 2 + 1)
    score_ends = tf.where(
        tf.roll(is_first, -1, 0), num_tokens, tf.roll(score_starts, -1, 0)
    )
    return Windows(texts, starts, ends, score_starts, score_ends)
