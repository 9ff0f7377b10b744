"""Packed rows: several documents in a row that do not attend to each other.

The documents of a row are numbered 1, 2, ... from left to right; padding has
0. So a row of one document has the mask of BERT, and code for packed rows also
reads ordinary rows.

Letters in shapes: B rows, L tokens in a row.

Differs: neither the paper nor the original has packed rows.

Source: Krell et al., 2021, "Efficient Sequence Packing without
Cross-contamination", section 3.2.
"""

import tensorflow as tf


def share_document(numbers: tf.Tensor) -> tf.Tensor:
    """Returns which pairs of tokens belong to the same document.

    Shapes: numbers [B, L]; returns [B, L, L].
    """
    read = tf.expand_dims(numbers, 1)  # [B, 1, L]
    is_same = tf.expand_dims(numbers, 2) == read
    return tf.logical_and(is_same, read > 0)


def positions(numbers: tf.Tensor) -> tf.Tensor:
    """Returns the position of each token in its document.

    Shapes: numbers [B, L]; returns [B, L].
    """
    is_same = tf.cast(share_document(numbers), tf.int32)
    so_far = tf.reduce_sum(tf.linalg.band_part(is_same, -1, 0), -1)
    return tf.maximum(so_far - 1, 0)


def shift_within_documents(
    states: tf.Tensor, numbers: tf.Tensor, shift: int
) -> tf.Tensor:
    """Shifts states along the row, but not into another document.

    Shapes: states [B, L, H], numbers [B, L]; returns [B, L, H].
    """
    is_same = tf.roll(numbers, shift, axis=1) == numbers
    moved = tf.roll(states, shift, axis=1)
    return tf.where(is_same[..., tf.newaxis], moved, 0.0)
