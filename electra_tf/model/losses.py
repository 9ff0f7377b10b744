"""Losses as a sum and a weight, divided only after the last reduction."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from electra_tf.model import xla_kernels


class LossTerm(NamedTuple):
    """The numerator and denominator of a weighted mean."""

    total: tf.Tensor
    weight: tf.Tensor

    def mean(self) -> tf.Tensor:
        """Returns `total / weight`, or 0 where the weight is 0."""
        return tf.math.divide_no_nan(self.total, self.weight)


def weighted(values: tf.Tensor, weights: tf.Tensor) -> LossTerm:
    values = tf.cast(values, tf.float32)
    return LossTerm(tf.reduce_sum(values * weights), tf.reduce_sum(weights))


def softmax_cross_entropy(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Computes -log softmax(logits)[id]: [B, N, V], [B, N] -> [B, N]."""
    if not xla_kernels.is_worth_compiling(logits):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)

    @tf.custom_gradient
    def run(logits: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        log_z = _log_partition(logits)  # [..., 1]

        def gradient(dy: tf.Tensor) -> tf.Tensor:
            return _cross_entropy_gradient(logits, log_z, ids, dy)

        right = tf.gather(logits, ids, axis=-1, batch_dims=ids.shape.rank)
        return tf.squeeze(log_z, -1) - right, gradient

    return run(logits)


@xla_kernels.compiled
def _log_partition(logits: tf.Tensor) -> tf.Tensor:
    """Computes log sum exp(logits): float32 [..., V] -> [..., 1], nats."""
    largest = tf.reduce_max(logits, -1, keepdims=True)
    weights = tf.exp(logits - largest)
    return tf.math.log(tf.reduce_sum(weights, -1, keepdims=True)) + largest


@xla_kernels.compiled
def _cross_entropy_gradient(
    logits: tf.Tensor, log_z: tf.Tensor, ids: tf.Tensor, dy: tf.Tensor
) -> tf.Tensor:
    """Computes (softmax(logits) - one_hot(ids)) dy, float32 [..., V]."""
    is_right = tf.range(logits.shape[-1]) == ids[..., tf.newaxis]
    excess = tf.exp(logits - log_z) - tf.cast(is_right, logits.dtype)
    return excess * dy[..., tf.newaxis]


def sigmoid_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Computes the binary cross-entropy under sigmoid(logits): [B, L]."""
    return tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(labels, tf.float32), logits
    )


def entropy(logits: tf.Tensor) -> tf.Tensor:
    """Computes the entropy of softmax(logits): logits [B, N, V] -> [B, N]."""
    log_p = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.exp(log_p) * log_p, -1)
