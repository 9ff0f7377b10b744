import numpy as np
import tensorflow as tf

from electra_tf.model import losses


def test_loss_terms_of_micro_batches_add_up():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 4)).astype(np.float32)
    weights = rng.integers(0, 2, (6, 4)).astype(np.float32)
    parts = [losses.weighted(values[i::2], weights[i::2]) for i in range(2)]
    total = losses.LossTerm(*(sum(x) for x in zip(*parts, strict=True)))
    expected = (values * weights).sum() / weights.sum()
    np.testing.assert_allclose(total.mean(), expected, rtol=1e-5)


def test_mean_of_zero_weight_is_zero():
    term = losses.weighted(tf.constant([3.0]), tf.constant([0.0]))
    assert float(term.mean()) == 0.0


def test_entropy_is_the_mean_negative_log_probability():
    logits = np.random.default_rng(0).normal(size=(2, 3, 7))
    logits[0, 0, 1:] = -1e9  # all but one impossible
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.sum(p * np.log(p, where=p > 0, out=np.zeros_like(p)), -1)
    actual = losses.entropy(tf.constant(logits, tf.float32))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-7)


def test_sigmoid_cross_entropy_is_finite_for_large_logits():
    logits = np.array([[-1000.0, 1000.0, 0.3, -2.0]], np.float32)
    labels = np.array([[0, 0, 1, 1]], np.int32)
    expected = [[0.0, 1000.0, np.log1p(np.exp(-0.3)), np.log1p(np.exp(2.0))]]
    actual = losses.sigmoid_cross_entropy(logits, labels)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
