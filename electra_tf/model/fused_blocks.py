"""The blocks of an encoder in the form that TensorFlow fuses on CPUs.

In a graph for rows of any number and length no kernel of `xla_kernels` can be
compiled beforehand. There the graph optimizer can do it: with oneDNN it joins
a product with its bias and GELU or residual, the scores of attention with
their scale and mask, and a normalization into one operation each, if they
stand next to each other. So states stay matrices of all tokens, [B * L, H],
from the first block to the last.

The functions are those of `TransformerBlock`, without dropout. Where nothing
is fused, as on accelerators, they give the same numbers.

Letters in shapes: B rows, L tokens in a row, H hidden, A heads, d H / A, N
tokens of all rows, I and O any input and output width.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

from electra_tf.model import tensor_ops
from electra_tf.util import distribution

_MANY_TOKENS = 512
"""Tokens from which on oneDNN's normalization is faster: starting its threads
takes as long as the plain operations on fewer."""


def run(
    blocks: Sequence[keras.layers.Layer], x: tf.Tensor, bias: tf.Tensor
) -> list[tf.Tensor]:
    """Returns the states after every block.

    Args:
      blocks: of `TransformerBlock`, built.
      x: float32 [B, L, H].
      bias: float32 [B, 1, 1 or L, L], of `attention_bias`.

    Returns:
      float32 [B, L, H] each.
    """
    shape = tensor_ops.shape_of(x)
    bias = tf.ensure_shape(bias, [None, 1, None, None])
    states = [tf.reshape(x, [-1, shape[-1]])]  # [N, H]
    for block in blocks:
        states.append(_block(block, states[-1], bias, shape[:2]))
    return [tf.reshape(state, shape) for state in states[1:]]


def _block(
    block: keras.layers.Layer,
    x: tf.Tensor,
    bias: tf.Tensor,
    sizes: list[int | tf.Tensor],
) -> tf.Tensor:
    """Runs a block on float32 [N, H]; `sizes` are B and L."""
    attended = _attend(block.attention, x, bias, sizes)
    x = _normalize(block.attention_norm, attended + x)
    hidden = tensor_ops.gelu(_linear(block.intermediate, x))
    return _normalize(block.output_norm, _linear(block.dense, hidden) + x)


def _attend(
    attention: keras.layers.Layer,
    x: tf.Tensor,
    bias: tf.Tensor,
    sizes: list[int | tf.Tensor],
) -> tf.Tensor:
    num_heads, dtype = attention.config.num_attention_heads, _dtype(attention)
    width = x.shape[-1] // num_heads
    query, key, value = (
        tf.transpose(
            tf.reshape(_linear(part, x), [*sizes, num_heads, width]),
            [0, 2, 1, 3],
        )  # [B, A, L, d]
        for part in (attention.query, attention.key, attention.value)
    )
    scores = tensor_ops.matmul(query, key, dtype, transpose_b=True)
    probs = tf.nn.softmax(scores * width**-0.5 + bias)  # [B, A, L, L]
    context = tensor_ops.matmul(probs, value, dtype)
    context = tf.transpose(context, [0, 2, 1, 3])  # [B, L, A, d]
    context = tf.reshape(context, tf.shape(x))  # as known as the residual
    return _linear(attention.dense, context)


def _linear(layer: keras.layers.Layer, x: tf.Tensor) -> tf.Tensor:
    """Computes float32 [N, O] from [N, I], with nothing behind the bias."""
    kernel = tf.convert_to_tensor(layer.kernel)
    bias = tf.convert_to_tensor(layer.bias)
    return tf.nn.bias_add(tensor_ops.matmul(x, kernel, _dtype(layer)), bias)


def _dtype(layer: keras.layers.Layer) -> str | None:
    """Returns the type of a layer's products, None for its variables'."""
    dtype = layer.compute_dtype
    return None if dtype == layer.variable_dtype else dtype


def _normalize(norm: keras.layers.Layer, x: tf.Tensor) -> tf.Tensor:
    """Normalizes float32 [N, H] as the layer does."""
    gamma = tf.convert_to_tensor(norm.gamma)
    beta = tf.convert_to_tensor(norm.beta)

    def plain() -> tf.Tensor:
        return tensor_ops.layer_norm(x, gamma, beta, epsilon=norm.epsilon)

    def fused() -> tf.Tensor:
        return _fused_layer_norm(x, gamma, beta, norm.epsilon)

    if distribution.has_accelerator():
        return plain()
    is_large = tf.shape(x)[0] >= _MANY_TOKENS
    return tf.ensure_shape(tf.cond(is_large, fused, plain), x.shape)


def _fused_layer_norm(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """Normalizes by the operations that the optimizer knows as one.

    They are those of Keras 2: a batch normalization with tokens as channels.
    """
    count = tf.shape(x)[0]
    empty = tf.constant([], tf.float32)
    normalized = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, tf.stack([1, count, x.shape[-1], 1])),
        scale=tf.fill([count], 1.0),
        offset=tf.fill([count], 0.0),
        mean=empty,
        variance=empty,
        epsilon=epsilon,
        data_format="NCHW",
        is_training=True,
    ).y
    return tf.reshape(normalized, tf.shape(x)) * gamma + beta
