"""Tensor operations that layers share.

Letters in shapes: as in `modeling`; I and O are any input and output width.
"""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from electra_tf.model import xla_kernels
from electra_tf.util import distribution, seeds

ZERO_PROB_LOGIT = -1e9
"""A logit of probability 0. Finite, as 0 times infinity is NaN."""


def shape_of(x: tf.Tensor) -> list[int | tf.Tensor]:
    """Returns the shape of `x`: ints where static, else scalar tensors."""
    dynamic = tf.shape(x)
    return [
        dynamic[axis] if size is None else size
        for axis, size in enumerate(x.shape)
    ]


def rows_of(x: tf.Tensor) -> tf.Tensor:
    """Returns `x`, [..., H], as a matrix [rows, H]."""
    x = tf.convert_to_tensor(x)
    return x if x.shape.rank == 2 else tf.reshape(x, [-1, x.shape[-1]])


def product(
    x: tf.Tensor, kernel: tf.Tensor, dtype: str | None = None
) -> tf.Tensor:
    """Multiplies the rows of x by kernel [I, O], in the given dtype."""
    if dtype == "bfloat16" and not distribution.has_bfloat16():
        dtype = None
    dtype = tf.as_dtype(dtype or x.dtype)
    x, kernel = tf.cast(rows_of(x), dtype), tf.cast(kernel, dtype)
    is_wide = kernel.shape[0] > kernel.shape[1] and dtype == tf.float32
    if not is_wide or not xla_kernels.is_worth_compiling(x):
        return tf.matmul(x, kernel)

    @tf.custom_gradient
    def run(x: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            of_kernel = tf.matmul(dy, x, transpose_a=True)  # [O, I]
            of_x = tf.matmul(dy, kernel, transpose_b=True)  # [rows, I]
            return of_x, tf.transpose(of_kernel)

        return tf.matmul(x, kernel), gradient

    return run(x, kernel)


def linear(
    x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, dtype: str | None = None
) -> tf.Tensor:
    """Computes `x @ kernel + bias`: kernel [I, O], bias [O]."""
    y = add_bias(product(x, kernel, dtype), bias, bias.dtype)
    return tf.reshape(y, [*shape_of(x)[:-1], kernel.shape[1]])


def add_bias(y: tf.Tensor, bias: tf.Tensor, dtype: str | tf.DType) -> tf.Tensor:
    """Computes y + bias in float32, and rounds it to a dtype: bias [O]."""
    add = _add_bias if y.dtype == dtype == bias.dtype else _fused_add_bias
    return add(y, bias, dtype=dtype)


def _add_bias(
    y: tf.Tensor, bias: tf.Tensor, *, dtype: str | tf.DType
) -> tf.Tensor:
    return tf.cast(tf.nn.bias_add(tf.cast(y, bias.dtype), bias), dtype)


_fused_add_bias = xla_kernels.fused(_add_bias)


@xla_kernels.fused
def gelu(x: tf.Tensor) -> tf.Tensor:
    """Computes x * Phi(x) with the exact normal CDF (erf), as the original."""
    return tf.nn.gelu(x, approximate=False)


@xla_kernels.fused
def add_and_gelu(y: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Computes gelu(y + bias) in float32, rounded to the dtype of `y`."""
    x = tf.nn.bias_add(tf.cast(y, bias.dtype), bias)
    return tf.cast(tf.nn.gelu(x, approximate=False), y.dtype)


def layer_norm(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, *, epsilon: float
) -> tf.Tensor:
    """Normalizes the last axis to mean 0 and variance 1; scales and shifts."""
    y = _fused_layer_norm(rows_of(x), gamma, beta, epsilon=epsilon)
    return tf.reshape(y, shape_of(x))


def _layer_norm(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, *, epsilon: float
) -> tf.Tensor:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    centered = x - mean
    variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
    return centered * tf.math.rsqrt(variance + epsilon) * gamma + beta


_fused_layer_norm = xla_kernels.fused(_layer_norm)


def dropout(x: tf.Tensor, rate: float, keys: tf.Tensor | None) -> tf.Tensor:
    """Zeroes elements of x [B, ...] by keys [B], and scales the rest."""
    if keys is None or rate == 0.0:
        return x
    return _fused_dropout(x, keys=keys, rate=rate)


def _dropout(x: tf.Tensor, *, keys: tf.Tensor | None, rate: float) -> tf.Tensor:
    if keys is None or rate == 0.0:
        return x
    # A replica may have no row of the last batch.
    num_rows = tf.maximum(tf.size(keys), 1)
    bits = seeds.random_bits(keys, (tf.size(x) // num_rows,))
    kept = bits >= tf.constant(int(rate * 2**32), tf.uint32)
    kept = tf.reshape(kept, tf.shape(x))
    return tf.where(kept, x * (1 / (1 - rate)), tf.zeros([], x.dtype))


_fused_dropout = xla_kernels.fused(_dropout)


@xla_kernels.fused
def add_and_norm(
    x: tf.Tensor,
    y: tf.Tensor,
    bias: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    *,
    epsilon: float,
    rate: float,
    keys: tf.Tensor | None,
) -> tf.Tensor:
    """Computes layer_norm(x + dropout(y + bias)) in float32, [B, L, H]."""
    y = tf.nn.bias_add(tf.cast(y, x.dtype), bias)
    y = _dropout(y, keys=keys, rate=rate)
    z = _layer_norm(y + rows_of(x), gamma, beta, epsilon=epsilon)
    return tf.reshape(z, shape_of(x))


def attention_weights(
    scores: tf.Tensor,
    mask: tf.Tensor,
    *,
    scale: float,
    rate: float,
    keys: tf.Tensor | None,
) -> tf.Tensor:
    """Computes dropout(softmax(scores * scale + mask)), [B, A, L, L]."""
    # Without use of the keys the graph need not compute them.
    drop = {"keys": None if rate == 0.0 else keys, "rate": rate}

    def softmax(scores: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(tf.cast(scores, mask.dtype) * scale + mask)

    if not xla_kernels.is_worth_compiling(scores):
        return tf.cast(_dropout(softmax(scores), **drop), scores.dtype)

    @tf.custom_gradient
    def run(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        probs = softmax(scores)

        def gradient(dy: tf.Tensor) -> tf.Tensor:
            return _softmax_gradient(dy, probs, scale=scale, **drop)

        return _round_dropout(probs, dtype=scores.dtype, **drop), gradient

    return run(scores)


@xla_kernels.compiled
def _round_dropout(
    x: tf.Tensor, *, dtype: tf.DType, keys: tf.Tensor | None, rate: float
) -> tf.Tensor:
    return tf.cast(_dropout(x, keys=keys, rate=rate), dtype)


@xla_kernels.compiled
def _softmax_gradient(
    dy: tf.Tensor,
    probs: tf.Tensor,
    *,
    scale: float,
    keys: tf.Tensor | None,
    rate: float,
) -> tf.Tensor:
    """Computes the gradient of `attention_weights` w.r.t. its scores."""
    dp = _dropout(tf.cast(dy, probs.dtype), keys=keys, rate=rate)
    weighted = dp * probs
    total = tf.reduce_sum(weighted, -1, keepdims=True)
    return tf.cast((weighted - total * probs) * scale, dy.dtype)


def gather_positions(x: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Picks positions [B, N] of each row: [B, L, ...] -> [B, N, ...]."""
    return tf.gather(x, positions, axis=1, batch_dims=1)


def recompute(
    function: Callable[..., tf.Tensor],
    variables: Sequence[keras.Variable],
    x: tf.Tensor,
    *constants: tf.Tensor,
) -> tf.Tensor:
    """Calls a function now, and again in the backward pass; keeps its inputs.

    Random keys are arguments, so that the second computation gives the same
    bits as the first.

    Source: Chen et al., 2016, "Training Deep Nets with Sublinear Memory Cost".

    Differs: `tf.recompute_grad` searches for variables and takes the step from
    which random keys are made for a weight; it separates the two computations
    by a condition that XLA may drop.

    Shapes: x [B, L, H]; returns [B, L, H].
    """
    count = len(constants)

    def call(x: tf.Tensor, rest: Sequence[tf.Tensor]) -> tf.Tensor:
        values = list(zip(variables, rest[count:], strict=True))
        with keras.StatelessScope(values):
            return function(x, *rest[:count])

    @tf.custom_gradient
    def run(x: tf.Tensor, *rest: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> list[tf.Tensor | None]:
            again = [_after(dy, tensor) for tensor in (x, *rest[:count])]
            weights = rest[count:]
            with tf.GradientTape() as tape:
                tape.watch([again[0], *weights])
                y = call(again[0], [*again[1:], *weights])
            dx, *dweights = tape.gradient(y, [again[0], *weights], dy)
            return [dx, *[None] * count, *dweights]

        return call(x, rest), gradient

    y = run(x, *constants, *map(tf.convert_to_tensor, variables))
    y.set_shape(x.shape)
    return y


def _after(first: tf.Tensor, then: tf.Tensor) -> tf.Tensor:
    """Returns `then` unchanged, but computed after `first`."""
    # A sum, as a replica may have no row of the last batch.
    number = tf.reduce_sum(tf.reshape(first, [-1])[:1])
    zero = tf.where(number == number, 0.0, number)
    return then + tf.cast(zero, then.dtype)
