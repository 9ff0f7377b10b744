"""The softmax over the vocabulary at many positions, in blocks.

All logits of 256 rows of 512 tokens are 16 GB. A loss at every token needs only
the logarithm of each denominator, so blocks of K of the M positions are
computed one after the other, and once more for the gradient.
"""

from collections.abc import Callable

import tensorflow as tf

from electra_tf.model import tensor_ops

MAX_LOGITS = 2**25
"""Logits in a block, at most: 128 MB."""


def log_partition(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    *,
    is_wanted: tf.Tensor,
    max_logits: int = MAX_LOGITS,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes log sum exp(x table' + bias), and the best word, [B, L] each."""
    batch, length, width = tensor_ops.shape_of(x)
    wanted = tf.reshape(is_wanted, [-1])  # [M]
    order = tf.argsort(tf.cast(~wanted, tf.int32), stable=True)  # wanted first
    rows = tf.gather(tf.reshape(x, [-1, width]), order)  # [M, E]
    num_rows = tf.maximum(1, batch * length)  # also of an empty batch
    block = tf.minimum(max(1, max_logits // table.shape[0]), num_rows)
    count = tf.reduce_sum(tf.cast(wanted, tf.int32))
    log_z, best = _in_blocks(rows, table, bias, block, count)
    back = tf.argsort(order)

    def place(values: tf.Tensor) -> tf.Tensor:
        values = tf.reshape(tf.gather(values, back), [batch, length])
        return tf.where(is_wanted, values, 0)

    return place(log_z), place(best)


def _in_blocks(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    block: tf.Tensor,
    count: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes `log_z` and `best`, [M], of the first `count` rows of x."""
    size = tensor_ops.shape_of(x)[0]
    num_used = _ceil_divide(count, block)

    def loop(body: Callable, *start: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Runs one block after the other, so that only one is in memory."""
        return tf.while_loop(
            lambda i, *_: i < num_used, body, (0, *start), parallel_iterations=1
        )[1:]

    @tf.custom_gradient
    def run(x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor) -> tuple:
        # Keeps the tape from recording the operations of the loop.
        x, table, bias = map(tf.stop_gradient, (x, table, bias))
        blocks = split(x, block)  # [M / K, K, E]

        def forward(i: tf.Tensor, log_z: tf.Tensor, best: tf.Tensor) -> tuple:
            logits = _logits(blocks[i], table, bias)  # [K, V]
            ids = tf.argmax(logits, -1, output_type=tf.int32)
            log_z = _put(log_z, i, tf.reduce_logsumexp(logits, -1))
            return i + 1, log_z, _put(best, i, ids)

        shape = tf.shape(blocks)[:2]
        log_z, best = loop(forward, tf.zeros(shape), tf.zeros(shape, tf.int32))

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> list[tf.Tensor]:
            upstream = split(upstream, block)  # [M / K, K]

            def backward(
                i: tf.Tensor, dx: tf.Tensor, dtable: tf.Tensor, dbias: tf.Tensor
            ) -> tuple:
                logits = _logits(blocks[i], table, bias)
                probs = tf.exp(logits - log_z[i][:, tf.newaxis])  # [K, V]
                dlogits = probs * upstream[i][:, tf.newaxis]
                return (
                    i + 1,
                    _put(dx, i, tf.matmul(dlogits, table)),
                    dtable + tf.matmul(dlogits, blocks[i], transpose_a=True),
                    dbias + tf.reduce_sum(dlogits, 0),
                )

            dx, *others = loop(
                backward, *map(tf.zeros_like, (blocks, table, bias))
            )
            return [_join(dx)[:size], *others]

        return (_join(log_z)[:size], _join(best)[:size]), gradient

    return run(x, table, bias)


def _logits(x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    return tf.matmul(x, table, transpose_b=True) + bias


def split(x: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
    """Pads and splits a tensor into blocks: x [M, ...] -> [M / K, K, ...]."""
    size, *rest = tensor_ops.shape_of(x)
    num_blocks = tf.maximum(1, _ceil_divide(size, block))  # 1 if empty
    missing = [[0, num_blocks * block - size], *([0, 0] for _ in rest)]
    return tf.reshape(tf.pad(x, missing), [num_blocks, block, *rest])


def _ceil_divide(count: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
    """Divides, rounding up; -(-count // block) would round down in ONNX."""
    return (count + block - 1) // block


def _join(blocks: tf.Tensor) -> tf.Tensor:
    return tf.reshape(blocks, [-1, *blocks.shape[2:]])


def _put(blocks: tf.Tensor, i: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.tensor_scatter_nd_update(blocks, [[i]], value[tf.newaxis])
