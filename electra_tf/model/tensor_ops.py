"""Tensor operations that layers share.

Letters in shapes: B rows, L tokens in a row, N masked slots, H hidden,
V vocabulary, I and O any input and output width.
"""

import tensorflow as tf

from electra_tf.model import xla_kernels
from electra_tf.util import distribution

NEVER = -1e9
"""A logit of probability 0. Finite, as 0 times infinity is no number."""

_BLOCK = 128  # columns summed at a time by the sampler


def shape_of(x: tf.Tensor) -> list[int | tf.Tensor]:
    """Returns the shape of `x`: numbers where static, scalars elsewhere."""
    dynamic = tf.shape(x)
    return [
        dynamic[axis] if size is None else size
        for axis, size in enumerate(x.shape)
    ]


def matmul(
    x: tf.Tensor, y: tf.Tensor, dtype: str | None = None, **options: bool
) -> tf.Tensor:
    """Multiplies matrices, with factors rounded to `dtype` if one is given.

    Sums are of float32 whatever the factors are, then rounded to `dtype` too;
    so are the products of the gradient. Where `distribution.has_bfloat16` says
    no, bfloat16 is float32.

    Args:
      x: float32 [..., M, K].
      y: float32 [..., K, N].
      dtype: of the factors, as "bfloat16". Default: theirs.
      **options: of `tf.matmul`.

    Returns:
      The dtype of `x`, [..., M, N].
    """
    if dtype == "bfloat16" and not distribution.has_bfloat16():
        dtype = None
    if dtype is None:
        return tf.matmul(x, y, **options)
    product = tf.matmul(tf.cast(x, dtype), tf.cast(y, dtype), **options)
    return tf.cast(product, x.dtype)


def linear(
    x: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    dtype: str | None = None,
) -> tf.Tensor:
    """Computes `x @ kernel + bias` as one matrix product.

    Args:
      x: float32 [..., I].
      kernel: float32 [I, O].
      bias: float32 [O].
      dtype: of the product, see `matmul`.

    Returns:
      float32 [..., O].
    """
    flat = tf.reshape(x, [-1, kernel.shape[0]])  # [rows, I]
    y = tf.nn.bias_add(matmul(flat, kernel, dtype), bias)  # [rows, O]
    return tf.reshape(y, [*shape_of(x)[:-1], kernel.shape[1]])


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Computes x * Phi(x) with the exact normal CDF (erf), as the original."""
    x = tf.convert_to_tensor(x)
    if xla_kernels.is_worth_compiling(x):
        return xla_kernels.gelu(x)
    return tf.nn.gelu(x, approximate=False)


def layer_norm(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, *, epsilon: float
) -> tf.Tensor:
    """Normalizes the last axis to mean 0 and variance 1; scales and shifts.

    Args:
      x: float32 [..., H].
      gamma: float32 [H].
      beta: float32 [H].
      epsilon: added to the variance.

    Returns:
      float32 [..., H].
    """
    mean = tf.reduce_mean(x, -1, keepdims=True)
    centered = x - mean
    variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
    return centered * tf.math.rsqrt(variance + epsilon) * gamma + beta


def dropout(x: tf.Tensor, rate: float, keys: tf.Tensor | None) -> tf.Tensor:
    """Zeroes elements with probability `rate` and scales the rest.

    Args:
      x: float32 [B, ...] with a static shape but for B.
      rate: probability of zeroing.
      keys: uint32 [B], one random key a row; None switches dropout off.

    Returns:
      float32 [B, ...].
    """
    if keys is None or rate == 0.0:
        return x
    return xla_kernels.dropout(x, keys, rate)


def gather_positions(x: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Picks some positions of each row.

    Args:
      x: any dtype [B, L, ...].
      positions: int32 [B, N].

    Returns:
      same dtype [B, N, ...].
    """
    return tf.gather(x, positions, axis=1, batch_dims=1)


def keep_largest(logits: tf.Tensor, count: int) -> tf.Tensor:
    """Keeps the largest logits and gives all others probability 0.

    Args:
      logits: float32 [B, N, V].
      count: how many of a slot are kept; more where some are equal to the last
        of them.

    Returns:
      float32 [B, N, V].
    """
    count = min(count, logits.shape[-1])
    least = tf.math.top_k(logits, count).values[..., -1:]  # [B, N, 1]
    return tf.where(logits >= least, logits, NEVER)


def sample_from_logits(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Samples ids from softmax(logits) by inverting the distribution function.

    One uniform number a slot is enough for an exact sample; Gumbel noise would
    take V of them. The cumulative sum is taken in two levels (blocks of 128,
    then within the chosen block), each a product with a triangular matrix. What
    has no probability is never drawn, whatever is rounded.

    Args:
      logits: float32 [B, N, V].
      uniform: float32 [B, N] in [0, 1).

    Returns:
      int32 [B, N], in [0, V).
    """
    return sample_many(logits, uniform[..., tf.newaxis])[..., 0]


def sample_many(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Samples K ids from each softmax(logits), as `sample_from_logits` one.

    Args:
      logits: float32 [B, N, V].
      uniform: float32 [B, N, K] in [0, 1).

    Returns:
      int32 [B, N, K], in [0, V), independent of one another.
    """
    vocab_size, num_samples = logits.shape[-1], uniform.shape[-1]
    num_blocks = -(-vocab_size // _BLOCK)
    weights = tf.exp(logits - tf.reduce_max(logits, -1, keepdims=True))
    padding = num_blocks * _BLOCK - vocab_size
    weights = tf.pad(weights, [[0, 0], [0, 0], [0, padding]])
    blocks = tf.reshape(weights, [-1, num_blocks, _BLOCK])  # [B*N, V/128, 128]
    sums = tf.reduce_sum(blocks, -1)  # [B*N, V/128]
    ends = _cumulative_sum(sums)
    target = tf.reshape(uniform, [-1, num_samples]) * ends[:, -1:]  # [B*N, K]
    block = _find(sums[:, tf.newaxis], ends[:, tf.newaxis], target)
    starts = tf.pad(ends, [[0, 0], [1, 0]])
    rest = target - gather_positions(starts, block)  # [B*N, K]
    inner = gather_positions(blocks, block)  # [B*N, K, 128]
    index = block * _BLOCK + _find(inner, _cumulative_sum(inner), rest)
    return tf.reshape(index, tf.shape(uniform))


def sample_with_gumbel(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Samples ids from softmax(logits) as the original does, by Gumbel noise.

    Differs from the exact method by the constants in its logarithms.

    Args:
      logits: float32 [B, N, V].
      uniform: float32 [B, N, V] in [0, 1).

    Returns:
      int32 [B, N], in [0, V).

    Source: `sample_from_softmax` of the original's pretrain_helpers.py.
    """
    gumbel = -tf.math.log(-tf.math.log(uniform + 1e-9) + 1e-9)
    return tf.argmax(tf.nn.softmax(logits + gumbel), -1, tf.int32)


def gumbel_noise(uniform: tf.Tensor) -> tf.Tensor:
    """Turns uniform into Gumbel noise: argmax(logits + noise) is a sample.

    Args:
      uniform: float32, any shape, in [0, 1).

    Returns:
      float32, the same shape, finite.
    """
    least = 2.0**-25  # half of the least draw that is not 0
    return -tf.math.log(-tf.math.log(tf.maximum(uniform, least)))


def _cumulative_sum(x: tf.Tensor) -> tf.Tensor:
    size = x.shape[-1]
    upper = tf.linalg.band_part(tf.ones([size, size]), 0, -1)
    return linear(x, upper, tf.zeros([size]))


def _find(x: tf.Tensor, ends: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Finds the first column whose cumulative sum is over the target.

    Args:
      x: float32 [M, K or 1, n], at least 0; columns of 0 are passed over.
      ends: float32 [M, K or 1, n], its cumulative sums.
      target: float32 [M, K].

    Returns:
      int32 [M, K]; the last column over 0 where rounding leaves none.
    """
    size = x.shape[-1]
    columns, is_possible = tf.range(size), x > 0
    is_over = tf.logical_and(ends > target[..., tf.newaxis], is_possible)
    first = tf.reduce_min(tf.where(is_over, columns, size), -1)
    last = tf.reduce_max(tf.where(is_possible, columns, 0), -1)
    return tf.minimum(first, last)
