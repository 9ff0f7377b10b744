import math

import numpy as np
import pytest
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


def test_dropout_without_keys_or_rate_does_nothing():
    x = tf.ones([2, 3])
    keys = seeds.row_keys(0, tf.constant(0), tf.range(2))
    assert tensor_ops.dropout(x, 0.5, None) is x
    assert tensor_ops.dropout(x, 0.0, keys) is x


@pytest.mark.parametrize("vocab_size", [5, 128, 300, 1000])
def test_sampling_inverts_the_distribution_function(vocab_size):
    logits = 3 * _normal(4, 6, vocab_size)
    uniform = np.random.default_rng(1).random((4, 6)).astype(np.float32)
    probs = np.exp(logits.astype(np.float64))
    ends = np.cumsum(probs / probs.sum(-1, keepdims=True), -1)
    expected = (ends <= uniform[..., None]).sum(-1)
    sampled = tensor_ops.sample_from_logits(tf.constant(logits), uniform)
    np.testing.assert_array_equal(sampled, expected)


def test_sampling_follows_the_softmax():
    logits = np.tile(_normal(1, 1, 200), (1, 100_000, 1))
    uniform = np.random.default_rng(1).random((1, 100_000)).astype(np.float32)
    sampled = tensor_ops.sample_from_logits(tf.constant(logits), uniform)
    shares = np.bincount(sampled.numpy().ravel(), minlength=200) / 100_000
    probs = np.exp(logits[0, 0]) / np.exp(logits[0, 0]).sum()
    assert np.abs(shares - probs).sum() < 0.05


def test_gumbel_noise_follows_the_softmax():
    logits = np.array([0.0, 1.0, 2.0, -30.0], np.float32)
    keys = seeds.row_keys(0, tf.constant(0), tf.range(4000))
    uniform = seeds.uniform(keys, (5, 4))
    ids = tensor_ops.sample_with_gumbel(tf.constant(logits), uniform)
    shares = np.bincount(np.ravel(ids), minlength=4) / 20_000
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(shares, expected, atol=0.01)


@pytest.mark.parametrize("uniform", [0.0, 1e-9, 0.5, 1 - 2**-24])
@pytest.mark.parametrize("possible", [[0], [298], [7, 8, 129], [*range(100)]])
def test_what_has_no_probability_is_never_drawn(possible, uniform):
    rng = np.random.default_rng(0)
    logits = np.full((4, 50, 300), tensor_ops.NEVER, np.float32)
    logits[..., possible] = rng.normal(size=(4, 50, len(possible)))
    draws = tf.fill([4, 50], np.float32(uniform))
    sampled = tensor_ops.sample_from_logits(tf.constant(logits), draws)
    assert np.isin(sampled, possible).all()


def test_the_largest_logits_are_kept():
    logits = _normal(2, 3, 40)
    logits[0, 0, :5] = logits[0, 0].max() + 1  # equal, and more than asked for
    kept = tensor_ops.keep_largest(tf.constant(logits), 4).numpy()
    least = np.sort(logits, -1)[..., -4:].min(-1, keepdims=True)
    expected = np.where(logits >= least, logits, -1e9)
    np.testing.assert_array_equal(kept, expected)
    counts = (kept > -1e9).sum(-1)
    assert counts[0, 0] == 5 and (np.delete(counts.ravel(), 0) == 4).all()
    same = tensor_ops.keep_largest(tf.constant(logits), 1000)
    np.testing.assert_array_equal(same, logits)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-24])
def test_sampling_never_leaves_the_vocabulary(uniform):
    logits = np.zeros((1, 1, 129), np.float32)
    logits[..., -1] = -50.0  # a last block that holds almost nothing
    sampled = tensor_ops.sample_from_logits(
        tf.constant(logits), tf.constant([[uniform]], tf.float32)
    )
    assert 0 <= int(sampled[0, 0]) < 129


def test_gather_positions_picks_from_each_row():
    x = np.arange(24).reshape(2, 4, 3)
    positions = np.array([[3, 0], [1, 1]])
    expected = np.stack([x[b][positions[b]] for b in range(2)])
    np.testing.assert_array_equal(
        tensor_ops.gather_positions(x, positions), expected
    )
