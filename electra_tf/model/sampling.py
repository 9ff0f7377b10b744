"""Samples from a softmax over the vocabulary: N masked slots, M in all rows."""

import tensorflow as tf

from electra_tf.model import tensor_ops, xla_kernels

_BLOCK = 128  # columns summed at a time


def keep_largest(logits: tf.Tensor, count: int) -> tf.Tensor:
    """Gives all but the largest logits, [B, N, V], probability 0."""
    count = min(count, logits.shape[-1])
    least = tf.math.top_k(logits, count).values[..., -1:]  # [B, N, 1]
    return tf.where(logits >= least, logits, tensor_ops.ZERO_PROB_LOGIT)


def sample_from_logits(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Inverts the distribution function: [B, N, V], [B, N] -> ids [B, N]."""
    rows = tensor_ops.rows_of(tf.stop_gradient(logits))  # [M, V]
    largest = tf.reduce_max(rows, -1, keepdims=True)
    sums = _block_sums(rows, largest)  # [M, V/128]
    ends = _cumulative_sum(sums)
    target = tf.reshape(uniform, [-1, 1]) * ends[:, -1:]
    block = _find(sums, ends, target)  # [M]
    starts = tf.pad(ends, [[0, 0], [1, 0]])
    low, high = (
        tensor_ops.gather_positions(x, block[:, tf.newaxis])
        for x in (starts, ends)
    )  # [M, 1]
    inner = _block_weights(rows, largest, block)  # [M, 128]
    inner_ends = _cumulative_sum(inner)
    # A share of the block, as products may be rounded (TF32, bfloat16): what
    # the block's sum has over that of its words would fall on the last word.
    rest = tf.math.divide_no_nan(target - low, high - low) * inner_ends[:, -1:]
    index = block * _BLOCK + _find(inner, inner_ends, rest)
    return tf.reshape(index, tf.shape(uniform))


@xla_kernels.compiled
def _block_sums(logits: tf.Tensor, largest: tf.Tensor) -> tf.Tensor:
    """Sums exp(logits - largest) in blocks: float32 [M, V] -> [M, V/128]."""
    weights = tf.exp(logits - largest)
    whole = logits.shape[-1] // _BLOCK * _BLOCK
    num_rows, num_blocks = tensor_ops.shape_of(logits)[0], whole // _BLOCK
    blocks = tf.reshape(weights[:, :whole], [num_rows, num_blocks, _BLOCK])
    sums = tf.reduce_sum(blocks, -1)
    if whole == logits.shape[-1]:
        return sums
    last = tf.reduce_sum(weights[:, whole:], -1, keepdims=True)
    return tf.concat([sums, last], -1)


def _block_weights(
    logits: tf.Tensor, largest: tf.Tensor, block: tf.Tensor
) -> tf.Tensor:
    """Returns exp(logits - largest) of one block per row, 0 past V."""
    columns = block[:, tf.newaxis] * _BLOCK + tf.range(_BLOCK)
    last = logits.shape[-1] - 1
    picked = tensor_ops.gather_positions(logits, tf.minimum(columns, last))
    return tf.where(columns <= last, tf.exp(picked - largest), 0.0)


def sample_with_gumbel(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Samples ids from softmax(logits) as the original does, by Gumbel noise.

    Differs from the exact method by the constants in its logarithms.

    Source: `sample_from_softmax` of the original's pretrain_helpers.py.

    Shapes: logits [B, N, V], uniform [B, N, V]; returns [B, N].
    """
    gumbel = -tf.math.log(-tf.math.log(uniform + 1e-9) + 1e-9)
    return tf.argmax(tf.nn.softmax(logits + gumbel), -1, tf.int32)


def gumbel_noise(uniform: tf.Tensor) -> tf.Tensor:
    """Converts uniform to Gumbel noise: argmax(logits + noise) is a sample."""
    least = 2.0**-25  # half of the smallest nonzero draw
    return -tf.math.log(-tf.math.log(tf.maximum(uniform, least)))


def _cumulative_sum(x: tf.Tensor) -> tf.Tensor:
    size = x.shape[-1]
    return tf.matmul(x, tf.linalg.band_part(tf.ones([size, size]), 0, -1))


def _find(x: tf.Tensor, ends: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Finds the first column whose cumulative sum is over the target, [M]."""
    size = x.shape[-1]
    columns, is_possible = tf.range(size), x > 0
    is_over = tf.logical_and(ends > target, is_possible)
    first = tf.reduce_min(tf.where(is_over, columns, size), -1)
    last = tf.reduce_max(tf.where(is_possible, columns, 0), -1)
    return tf.minimum(first, last)
