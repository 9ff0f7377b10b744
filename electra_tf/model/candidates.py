"""A few words of a distribution, to choose the right one from.

Letters in shapes: B rows, L tokens in a row, N masked slots, E embedding, V
vocabulary, K candidates.
"""

from collections.abc import Callable

import tensorflow as tf

from electra_tf.model import tensor_ops

_MAX_LOGITS = 2**25  # in a block: 128 MB


def others(
    logits: tf.Tensor, truth: tf.Tensor, uniform: tf.Tensor, num_others: int
) -> tf.Tensor:
    """Samples different words, none of them the truth.

    That is softmax(logits) without the truth, drawn from without replacement:
    the largest of logits + Gumbel noise. To leave one out changes nothing about
    the order of the rest, so that it need not be done beforehand.

    Args:
      logits: float32 [B, N, V].
      truth: int32 [B, N].
      uniform: float32 [B, N, V] in [0, 1).
      num_others: K, less than V.

    Returns:
      int32 [B, N, K], in the order of drawing.
    """
    noisy = logits + tensor_ops.gumbel_noise(uniform)
    drawn = tf.math.top_k(noisy, num_others + 1).indices  # [B, N, K + 1]
    is_truth = tf.cast(drawn == truth[..., tf.newaxis], tf.int32)
    from_here = tf.cumsum(is_truth, -1)[..., :-1] > 0  # what comes one later
    return tf.where(from_here, drawn[..., 1:], drawn[..., :-1])


def everywhere(
    x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor, uniform: tf.Tensor
) -> tf.Tensor:
    """Samples words from softmax(x table' + bias) at every token.

    Args:
      x: float32 [B, L, E].
      table: float32 [V, E].
      bias: float32 [V].
      uniform: float32 [B, L, K] in [0, 1).

    Returns:
      int32 [B, L, K], independent of one another.
    """

    def sample(x: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        logits = tensor_ops.linear(x, tf.transpose(table), bias)
        return tensor_ops.sample_many(logits[tf.newaxis], uniform[tf.newaxis])[
            0
        ]

    return _in_blocks(sample, x, uniform, block=_block(table))


def likeliest(
    x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor, num_words: int
) -> tf.Tensor:
    """Finds the words with the largest logits x table' + bias at every token.

    Args:
      x: float32 [B, L, E].
      table: float32 [V, E].
      bias: float32 [V].
      num_words: K.

    Returns:
      int32 [B, L, K], the likeliest first.
    """

    def top(x: tf.Tensor) -> tf.Tensor:
        logits = tensor_ops.linear(x, tf.transpose(table), bias)
        return tf.math.top_k(logits, num_words).indices

    return _in_blocks(top, x, block=_block(table))


def _block(table: tf.Tensor) -> int:
    return max(1, _MAX_LOGITS // table.shape[0])


def _in_blocks(
    function: Callable[..., tf.Tensor], *inputs: tf.Tensor, block: int
) -> tf.Tensor:
    """Applies a function to so many tokens at a time, one after the other.

    Args:
      function: of [M, ...] each, to int32 [M, K].
      *inputs: [B, L, ...] each.
      block: M, at most.

    Returns:
      int32 [B, L, K], without a gradient.
    """
    batch, length = tensor_ops.shape_of(inputs[0])[:2]
    size = batch * length
    block = tf.minimum(block, size)
    num_blocks = -(-size // block)

    def split(x: tf.Tensor) -> tf.Tensor:
        width = x.shape[-1]
        rows = tf.reshape(tf.stop_gradient(x), [-1, width])
        rows = tf.pad(rows, [[0, num_blocks * block - size], [0, 0]])
        return tf.reshape(rows, [num_blocks, block, width])

    found = tf.map_fn(
        lambda parts: function(*parts),
        tuple(map(split, inputs)),
        parallel_iterations=1,
        fn_output_signature=tf.int32,
    )  # [blocks, M, K]
    num_words = found.shape[-1]
    return tf.reshape(
        tf.reshape(found, [-1, num_words])[:size], [batch, length, num_words]
    )
