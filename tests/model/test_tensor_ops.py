import math

import numpy as np
import tensorflow as tf

from electra_tf.model import tensor_ops
from electra_tf.util import seeds


def _normal(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype(np.float32)


def test_linear_is_a_matrix_product_on_the_last_axis():
    x, kernel, bias = _normal(2, 3, 4), _normal(4, 5), _normal(5)
    np.testing.assert_allclose(
        tensor_ops.linear(x, tf.constant(kernel), bias),
        np.einsum("bli,io->blo", x, kernel) + bias,
        atol=1e-5,
    )


def test_gelu_uses_the_exact_normal_distribution_function():
    x = np.linspace(-4, 4, 33).astype(np.float32)
    phi = [0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(tensor_ops.gelu(x), x * phi, atol=1e-6)


def test_layer_norm_normalizes_the_last_axis():
    x, gamma, beta = _normal(3, 8), _normal(8), _normal(8)
    x64 = x.astype(np.float64)
    centered = x64 - x64.mean(-1, keepdims=True)
    expected = centered / x64.std(-1, keepdims=True) * gamma + beta
    y = tensor_ops.layer_norm(tf.constant(x), gamma, beta, epsilon=1e-12)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_dropout_zeroes_its_share_and_keeps_the_mean():
    keys = seeds.row_keys(0, tf.constant(0), tf.range(50))
    y = tensor_ops.dropout(tf.ones([50, 40, 50]), 0.1, keys).numpy()
    assert abs((y == 0).mean() - 0.1) < 0.003
    np.testing.assert_allclose(y[y != 0], 1 / 0.9, rtol=1e-6)


def test_dropout_takes_an_empty_batch():
    keys = tf.zeros([0], tf.uint32)
    found = tensor_ops.dropout(tf.zeros([0, 3, 4]), 0.5, keys)
    assert found.shape == (0, 3, 4)


def test_dropout_without_keys_or_rate_does_nothing():
    x = tf.ones([2, 3])
    keys = seeds.row_keys(0, tf.constant(0), tf.range(2))
    assert tensor_ops.dropout(x, 0.5, None) is x
    assert tensor_ops.dropout(x, 0.0, keys) is x


def test_gather_positions_picks_from_each_row():
    x = np.arange(24).reshape(2, 4, 3)
    positions = np.array([[3, 0], [1, 1]])
    expected = np.stack([x[b][positions[b]] for b in range(2)])
    np.testing.assert_array_equal(
        tensor_ops.gather_positions(x, positions), expected
    )
