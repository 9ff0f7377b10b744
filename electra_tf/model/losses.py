"""Losses as a sum and a weight, divided only after the last reduction."""

from typing import NamedTuple

import tensorflow as tf


class LossTerm(NamedTuple):
    """A weighted mean that has not been divided yet.

    Terms of micro-batches and replicas add up field by field; the mean is
    `total / weight`.

    Attributes:
      total: float32 scalar, weighted sum (of nats, of hits, ...).
      weight: float32 scalar, sum of the weights; may be 0.
    """

    total: tf.Tensor
    weight: tf.Tensor

    def mean(self) -> tf.Tensor:
        """Returns `total / weight`, or 0 where the weight is 0."""
        return tf.math.divide_no_nan(self.total, self.weight)


def weighted(values: tf.Tensor, weights: tf.Tensor) -> LossTerm:
    """Sums values under weights.

    Args:
      values: any numeric or bool dtype, any shape.
      weights: float32, the same shape, 0 where a value does not count.

    Returns:
      The term whose mean is the weighted mean of the values.
    """
    values = tf.cast(values, tf.float32)
    return LossTerm(tf.reduce_sum(values * weights), tf.reduce_sum(weights))


def softmax_cross_entropy(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Computes -log softmax(logits)[id].

    Args:
      logits: float32 [B, N, V].
      ids: int32 [B, N].

    Returns:
      float32 [B, N], nats.
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)


def sigmoid_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Computes the binary cross-entropy of `labels` under sigmoid(logits).

    Args:
      logits: float32 [B, L].
      labels: int32 or float32 [B, L], 0 or 1.

    Returns:
      float32 [B, L], nats.
    """
    return tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(labels, tf.float32), logits
    )


def entropy(logits: tf.Tensor) -> tf.Tensor:
    """Computes the entropy of softmax(logits).

    Args:
      logits: float32 [B, N, V].

    Returns:
      float32 [B, N], nats.
    """
    log_p = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.exp(log_p) * log_p, -1)
