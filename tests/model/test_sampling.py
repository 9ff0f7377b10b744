"""Samples from a softmax."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import sampling, tensor_ops


def _normal(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("vocab_size", [5, 128, 300, 1000])
def test_sampling_inverts_the_distribution_function(vocab_size):
    logits = 3 * _normal(4, 6, vocab_size)
    uniform = np.random.default_rng(1).random((4, 6)).astype(np.float32)
    probs = np.exp(logits.astype(np.float64))
    ends = np.cumsum(probs / probs.sum(-1, keepdims=True), -1)
    expected = (ends <= uniform[..., None]).sum(-1)
    sampled = sampling.sample_from_logits(tf.constant(logits), uniform)
    np.testing.assert_array_equal(sampled, expected)


@pytest.mark.parametrize("uniform", [0.0, 1e-9, 0.5, 1 - 2**-24])
@pytest.mark.parametrize("possible", [[0], [298], [7, 8, 129], [*range(100)]])
def test_impossible_ids_are_never_sampled(possible, uniform):
    rng = np.random.default_rng(0)
    logits = np.full((4, 50, 300), tensor_ops.ZERO_PROB_LOGIT, np.float32)
    logits[..., possible] = rng.normal(size=(4, 50, len(possible)))
    draws = tf.fill([4, 50], np.float32(uniform))
    sampled = sampling.sample_from_logits(tf.constant(logits), draws)
    assert np.isin(sampled, possible).all()


def test_the_largest_logits_are_kept():
    logits = _normal(2, 3, 40)
    logits[0, 0, :5] = logits[0, 0].max() + 1  # ties, more than are kept
    kept = sampling.keep_largest(tf.constant(logits), 4).numpy()
    least = np.sort(logits, -1)[..., -4:].min(-1, keepdims=True)
    expected = np.where(logits >= least, logits, -1e9)
    np.testing.assert_array_equal(kept, expected)
    counts = (kept > -1e9).sum(-1)
    assert counts[0, 0] == 5 and (np.delete(counts.ravel(), 0) == 4).all()
    same = sampling.keep_largest(tf.constant(logits), 1000)
    np.testing.assert_array_equal(same, logits)


def test_rounded_products_do_not_favour_the_last_word_of_a_block(monkeypatch):
    def rounded_sum(x):  # as a product in bfloat16 with float32 sums
        x = tf.cast(tf.cast(x, tf.bfloat16), tf.float32)
        return tf.cumsum(x, -1)

    monkeypatch.setattr(sampling, "_cumulative_sum", rounded_sum)
    logits = np.full((1, 1, 256), -12.0, np.float32)
    logits[..., 5:7] = 0.0, np.log(0.011)  # sum to what bfloat16 rounds up
    uniform = (np.arange(20_000, dtype=np.float32) + 0.5) / 20_000
    logits = np.broadcast_to(logits, (1, 20_000, 256))
    found = sampling.sample_from_logits(logits, uniform[np.newaxis])
    share = float(np.mean(found.numpy() == 127))
    assert share <= np.exp(-12.0) + 1 / 20_000
