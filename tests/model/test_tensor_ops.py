"""Random bits, and operations as XLA kernels and without, against NumPy."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import losses, tensor_ops
from electra_tf.util import seeds

SHAPE = (8, 64, 64)  # MIN_SIZE elements
DTYPES = [pytest.param(tf.float32, marks=pytest.mark.slow), tf.bfloat16]


def _normal(*shape, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    return (scale * rng.normal(size=shape)).astype(np.float32)


def _check(function, formula, tensors, *, dtypes=()):
    """Checks value and gradients against a formula in float64."""
    dtypes = dtypes or [tf.float32] * len(tensors)
    # bfloat16 rounds twice, to 8 bits.
    tolerance = 8e-3 if tf.bfloat16 in dtypes else 1e-5
    tensors = [tf.cast(x, d) for x, d in zip(tensors, dtypes, strict=True)]
    exact = [tf.cast(x, tf.float64) for x in tensors]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([tensors, exact])
        y, expected = function(*tensors), formula(*exact)
    dy = tf.cast(_normal(*y.shape, seed=9), y.dtype)
    found = tape.gradient(y, tensors, dy)
    gradients = tape.gradient(expected, exact, tf.cast(dy, tf.float64))
    for got, wanted in zip((y, *found), (expected, *gradients), strict=True):
        limit = tolerance * np.abs(wanted).max()
        np.testing.assert_allclose(
            tf.cast(got, tf.float64), wanted, rtol=0, atol=limit
        )


def _gelu(x):
    return x * 0.5 * (1 + tf.math.erf(x * math.sqrt(0.5)))


def _norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-12) * gamma + beta


def _kept(keys, shape, rate):
    """Returns dropout's factors, float64: 0 where it drops, else its scale."""
    bits = seeds.random_bits(keys, shape[1:]).numpy()
    return np.where(bits >= int(rate * 2**32), 1 / (1 - rate), 0.0)


@pytest.mark.parametrize("shape", [SHAPE, (2, 3, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_gelu_and_norm_are_those_of_float64(shape, dtype):
    x, bias, gamma = _normal(*shape), *_normal(2, shape[-1], seed=1)
    _check(tensor_ops.gelu, _gelu, [x])
    _check(
        lambda *x: tensor_ops.layer_norm(*x, epsilon=1e-12),
        _norm,
        [x, gamma, bias],
    )
    for function, formula in (
        (tensor_ops.add_and_gelu, _gelu),
        (lambda y, b: tensor_ops.add_bias(y, b, tf.float32), tf.identity),
    ):
        _check(
            function,
            lambda y, b, formula=formula: formula(y + b),
            [x, bias],
            dtypes=[dtype, tf.float32],
        )


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("shape", [SHAPE, (2, 3, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_residual_dropout_and_norm_are_those_of_float64(shape, dtype, rate):
    keys = seeds.row_keys(3, tf.constant(7), tf.range(shape[0]))
    options = {"epsilon": 1e-12, "rate": rate, "keys": keys}
    _check(
        lambda x, y, *rest: tensor_ops.add_and_norm(
            x, tensor_ops.rows_of(y), *rest, **options
        ),
        lambda x, y, bias, *norm: _norm(
            x + (y + bias) * _kept(keys, shape, rate), *norm
        ),
        [*_normal(2, *shape), *_normal(3, shape[-1], seed=4)],
        dtypes=[tf.float32, dtype, *[tf.float32] * 3],
    )


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(2, 4, 64, 64), (2, 2, 5, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_weights_are_those_of_float64(shape, dtype, rate):
    keys = seeds.row_keys(3, tf.constant(7), tf.range(shape[0]))
    mask = np.zeros((shape[0], 1, 1, shape[-1]), np.float32)
    mask[0, ..., -2:] = -10000.0
    _check(
        lambda scores: tensor_ops.attention_weights(
            scores, tf.constant(mask), scale=0.125, rate=rate, keys=keys
        ),
        lambda scores: (
            tf.nn.softmax(scores * 0.125 + mask) * _kept(keys, shape, rate)
        ),
        [8 * _normal(*shape)],
        dtypes=[dtype],
    )


@pytest.mark.parametrize("shape", [(4, 5, 2000), (2, 3, 7)])
def test_cross_entropy_is_that_of_float64(shape):
    rng = np.random.default_rng(0)
    ids = tf.constant(rng.integers(0, shape[-1], shape[:-1]), tf.int32)
    right = tf.one_hot(ids, shape[-1], dtype=tf.float64)
    _check(
        lambda logits: losses.softmax_cross_entropy(logits, ids),
        lambda logits: -tf.reduce_sum(tf.nn.log_softmax(logits) * right, -1),
        [_normal(*shape, scale=8.0)],
    )


@pytest.mark.parametrize("sizes", [(64, 8), (8, 64)])
def test_the_gradient_of_a_product_is_that_of_float64(sizes):
    width, units = sizes
    _check(
        lambda x, kernel: tensor_ops.product(x, kernel),
        lambda x, kernel: x @ kernel,
        [_normal(4096, width), _normal(width, units, seed=1)],
    )


@pytest.mark.parametrize("shape", [SHAPE, (8, 5)])
def test_dropout_draws_the_bits_of_its_keys_forward_and_backward(shape):
    x, dy = tf.constant(_normal(*shape)), tf.constant(_normal(*shape, seed=1))
    keys = seeds.row_keys(3, tf.constant(7), tf.range(8))
    bits = seeds.random_bits(keys, shape[1:]).numpy()
    kept = bits >= int(0.1 * 2**32)
    scale = np.float32(1 / 0.9)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tensor_ops.dropout(x, 0.1, keys)
    np.testing.assert_array_equal(y, np.where(kept, x * scale, 0))
    np.testing.assert_array_equal(
        tape.gradient(y, x, dy), np.where(kept, dy * scale, 0)
    )
    half = tensor_ops.dropout(x[4:], 0.1, keys[4:])
    np.testing.assert_array_equal(half, y[4:])


def test_entropies_are_finite_for_large_logits():
    logits = _normal(2, 3, 7)
    logits[0, 0, 1:] = -1e9  # all but one impossible
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.sum(p * np.log(p, where=p > 0, out=np.zeros_like(p)), -1)
    found = losses.entropy(tf.constant(logits))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    logits = np.array([[-1000.0, 1000.0, 0.3, -2.0]], np.float32)
    expected = [[0.0, 1000.0, np.log1p(np.exp(-0.3)), np.log1p(np.exp(2.0))]]
    found = losses.sigmoid_cross_entropy(logits, np.array([[0, 0, 1, 1]]))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def _numpy_mix(x):
    x = x.astype(np.uint64)
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    return (x ^ (x >> 16)).astype(np.uint32)


def _keys(rows, step=3, seed=7):
    return seeds.row_keys(seed, tf.constant(step), tf.constant(rows))


def test_a_key_mixes_seed_then_step_then_row():
    def word(value):
        return _numpy_mix(np.array(value * 0x9E3779B9 + 1) % 2**32)

    key = _numpy_mix(_numpy_mix(word(7)) ^ word(3))
    for row in (0, 5):
        expected = _numpy_mix(key ^ word(row))
        assert int(_keys([row])[0]) == int(expected)


def test_xla_and_eager_draw_the_same_bits():
    draw = lambda: seeds.random_bits(_keys([5, 6]), (64,))  # noqa: E731
    compiled = tf.function(draw, jit_compile=True)
    np.testing.assert_array_equal(draw(), compiled())
