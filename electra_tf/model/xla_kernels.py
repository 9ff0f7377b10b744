"""Elementwise arithmetic fused by XLA, where that is faster on a CPU.

TensorFlow's own operations walk over memory once each; a chain of elementwise
operations compiled by XLA walks once. XLA's matrix products on CPUs are slow,
so a step as a whole is not compiled there: each chain between two products is
a kernel of its own. Where XLA compiles the whole step, kernels are inlined.

A kernel reads vectors and is compiled once for each size of them, which takes
a tenth of a second. So kernels are used for large tensors whose size is known
beforehand: not in an exported model, nor in a test.
"""

import math
from collections.abc import Callable

import tensorflow as tf

from electra_tf.util import seeds

MIN_SIZE = 2**15
"""Elements from which on compiling is worth its time."""

VECTOR = tf.TensorSpec([None], tf.float32)
SCALAR = tf.TensorSpec([], tf.float32)
_ROWS = tf.TensorSpec([None, None], tf.float32)
_KEYS = tf.TensorSpec([None], tf.uint32)


def is_worth_compiling(x: tf.Tensor) -> bool:
    """Says whether elementwise functions of `x` should run as kernels."""
    is_known = x.shape.is_fully_defined() and x.dtype == tf.float32
    return is_known and x.shape.num_elements() >= MIN_SIZE


def on_vectors(
    function: Callable, *tensors: tf.Tensor
) -> tf.Tensor | tuple[tf.Tensor, ...]:
    """Calls a function of vectors on tensors of one shape, and on scalars.

    Args:
      function: vectors -> vectors of the same size.
      *tensors: of the shape of the first, or scalars.

    Returns:
      The function's results in that shape.
    """
    shape = tensors[0].shape
    vectors = [tf.reshape(x, [-1]) if x.shape.rank else x for x in tensors]
    results = function(*vectors)
    return tf.nest.map_structure(lambda y: tf.reshape(y, shape), results)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Computes x * Phi(x), with the exact normal CDF.

    Args:
      x: float32, any shape.

    Returns:
      float32, the same shape.
    """

    @tf.custom_gradient
    def run(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(dy: tf.Tensor) -> tf.Tensor:
            return on_vectors(_gelu_gradient_kernel, x, dy)

        return on_vectors(_gelu_kernel, x), gradient

    return run(x)


def gelu_gradient(x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    """Computes dy * (Phi(x) + x * phi(x)), the gradient of `gelu`."""
    density = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
    return dy * (_normal_cdf(x) + x * density)


def dropout(x: tf.Tensor, keys: tf.Tensor, rate: float) -> tf.Tensor:
    """Zeroes elements with probability `rate` and scales the rest.

    The gradient draws the mask again, so that none is kept.

    Args:
      x: float32 [B, ...] with a static shape but for B.
      keys: uint32 [B], one random key a row.
      rate: probability of zeroing.

    Returns:
      float32, the same shape.
    """
    size = math.prod(x.shape[1:])
    is_large = size >= MIN_SIZE // 8 and x.dtype == tf.float32
    function = _drop_kernel if is_large else drop
    threshold = tf.constant(int(rate * 2**32), tf.uint32)
    scale = tf.constant(1 / (1 - rate), x.dtype)

    @tf.custom_gradient
    def run(x: tf.Tensor, keys: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def dropped(y: tf.Tensor) -> tf.Tensor:
            rows = function(tf.reshape(y, [-1, size]), keys, threshold, scale)
            return tf.reshape(rows, tf.shape(y))

        return dropped(x), lambda dy: (dropped(dy), None)

    y = run(x, keys)
    y.set_shape(x.shape)
    return y


def drop(
    rows: tf.Tensor, keys: tf.Tensor, threshold: tf.Tensor, scale: tf.Tensor
) -> tf.Tensor:
    """Zeroes elements whose random bits are below a threshold; scales the rest.

    Args:
      rows: float32 [B, n].
      keys: uint32 [B].
      threshold: uint32 scalar.
      scale: float32 scalar.

    Returns:
      float32 [B, n].
    """
    kept = seeds.random_bits(keys, (tf.shape(rows)[1],)) >= threshold
    return tf.where(kept, rows * scale, tf.zeros([], rows.dtype))


def _normal_cdf(x: tf.Tensor) -> tf.Tensor:
    return 0.5 * (1.0 + tf.math.erf(x * math.sqrt(0.5)))


_gelu_kernel = tf.function(
    lambda x: x * _normal_cdf(x), [VECTOR], jit_compile=True
)
_gelu_gradient_kernel = tf.function(
    gelu_gradient, [VECTOR, VECTOR], jit_compile=True
)
_drop_kernel = tf.function(
    drop,
    [_ROWS, _KEYS, tf.TensorSpec([], tf.uint32), SCALAR],
    jit_compile=True,
)
