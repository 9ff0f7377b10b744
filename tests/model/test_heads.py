"""Heads, samples and scores of words against their formulas in NumPy."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.config.objectives import MaskingConfig
from electra_tf.model import heads, tensor_ops, two_tower, vocabulary_softmax
from electra_tf.pretrain import generators, pretrain_helpers

H, E, V = tiny.BERT.hidden_size, tiny.BERT.embedding_size, 11
RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(2, 3, H))
TABLE = RNG.normal(size=(V, E))
WORDS = np.array([[[1, 2], [8, 8], [0, 5]], [[3, 1], [4, 0], [7, 6]]])


def _gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


@pytest.mark.parametrize("has_neither", [False, True])
def test_selection_compares_a_projected_state_with_the_words_given(has_neither):
    head = heads.SelectionPredictions(tiny.BERT, has_neither=has_neither)
    head.build((None, None, H))
    w = {}
    for variable in head.weights:
        w[variable.path.partition("/")[2]] = RNG.normal(size=variable.shape)
        variable.assign(w[variable.path.partition("/")[2]])
    x = _gelu(STATES @ w["dense/kernel"] + w["dense/bias"])
    x -= x.mean(-1, keepdims=True)
    x /= np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
    x = x * w["LayerNorm/gamma"] + w["LayerNorm/beta"]
    expected = np.einsum("bne,bnke->bnk", x, TABLE[WORDS])
    if has_neither:
        expected = np.concatenate([x @ w["neither"], expected], -1)
    states, table = (tf.constant(a, "float32") for a in (STATES, TABLE))
    found = head(states, tf.constant(WORDS), table)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


B, L = 3, 7
X, ROWS, BIAS, UPSTREAM = (
    RNG.normal(size=shape).astype(np.float32)
    for shape in ((B, L, E), (V, E), (V,), (B, L))
)
WANTED = RNG.random((B, L)) < 0.6
MAX_LOGITS = (1, 2 * V, 5 * V, 1000)  # one row at a time, ..., all at once


def _log_partition(max_logits, x=X):
    inputs = [tf.constant(array) for array in (x, ROWS, BIAS)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        log_z, best = vocabulary_softmax.log_partition(
            *inputs, is_wanted=tf.constant(WANTED), max_logits=max_logits
        )
        total = tf.reduce_sum(log_z * UPSTREAM)
    return log_z, best, *tape.gradient(total, inputs)


@pytest.mark.parametrize("max_logits", MAX_LOGITS)
def test_a_softmax_in_blocks_equals_the_formula(max_logits):
    log_z, best, dx, dtable, dbias = map(np.asarray, _log_partition(max_logits))
    logits = X.astype(np.float64) @ ROWS.T + BIAS
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    dlogits = probs * (UPSTREAM * WANTED)[..., None]
    expected = np.where(WANTED, np.log(np.exp(logits).sum(-1)), 0)
    np.testing.assert_allclose(log_z, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(best[WANTED], logits.argmax(-1)[WANTED])
    np.testing.assert_allclose(dx, dlogits @ ROWS, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        dtable, np.einsum("blv,ble->ve", dlogits, X), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(dbias, dlogits.sum((0, 1)), rtol=1e-4, atol=1e-5)


def test_unwanted_states_may_be_nan():
    junk = np.where(WANTED[..., None], X, np.float32(np.nan))
    pairs = zip(_log_partition(V, x=junk), _log_partition(V), strict=True)
    for found, expected in pairs:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("vocab_size", [5, 128, 300, 1000])
def test_sampling_inverts_the_distribution_function(vocab_size):
    logits = RNG.normal(0, 3, (4, 6, vocab_size)).astype(np.float32)
    uniform = np.random.default_rng(1).random((4, 6)).astype(np.float32)
    probs = np.exp(logits.astype(np.float64))
    ends = np.cumsum(probs / probs.sum(-1, keepdims=True), -1)
    expected = (ends <= uniform[..., None]).sum(-1)
    sampled = generators.sample_from_logits(tf.constant(logits), uniform)
    np.testing.assert_array_equal(sampled, expected)


@pytest.mark.parametrize("uniform", [0.0, 1e-9, 0.5, 1 - 2**-24])
@pytest.mark.parametrize("possible", [[0], [298], [7, 8, 129], [*range(100)]])
def test_impossible_ids_are_never_sampled(possible, uniform):
    rng = np.random.default_rng(0)
    logits = np.full((4, 50, 300), tensor_ops.ZERO_PROB_LOGIT, np.float32)
    logits[..., possible] = rng.normal(size=(4, 50, len(possible)))
    draws = tf.fill([4, 50], np.float32(uniform))
    sampled = generators.sample_from_logits(tf.constant(logits), draws)
    assert np.isin(sampled, possible).all()


def test_the_largest_logits_are_kept():
    logits = RNG.normal(size=(2, 3, 40)).astype(np.float32)
    logits[0, 0, :5] = logits[0, 0].max() + 1  # ties, more than are kept
    kept = generators.keep_largest(tf.constant(logits), 4).numpy()
    least = np.sort(logits, -1)[..., -4:].min(-1, keepdims=True)
    expected = np.where(logits >= least, logits, -1e9)
    np.testing.assert_array_equal(kept, expected)
    counts = (kept > -1e9).sum(-1)
    assert counts[0, 0] == 5 and (np.delete(counts.ravel(), 0) == 4).all()
    same = generators.keep_largest(tf.constant(logits), 1000)
    np.testing.assert_array_equal(same, logits)


def test_rounded_products_do_not_favour_the_last_word_of_a_block(monkeypatch):
    def rounded_sum(x):  # as a product in bfloat16 with float32 sums
        x = tf.cast(tf.cast(x, tf.bfloat16), tf.float32)
        return tf.cumsum(x, -1)

    monkeypatch.setattr(generators, "_cumulative_sum", rounded_sum)
    logits = np.full((1, 1, 256), -12.0, np.float32)
    logits[..., 5:7] = 0.0, np.log(0.011)  # sum to what bfloat16 rounds up
    uniform = (np.arange(20_000, dtype=np.float32) + 0.5) / 20_000
    logits = np.broadcast_to(logits, (1, 20_000, 256))
    found = generators.sample_from_logits(logits, uniform[np.newaxis])
    share = float(np.mean(found.numpy() == 127))
    assert share <= np.exp(-12.0) + 1 / 20_000


@pytest.mark.parametrize("mask_prob", [0.15, 0.3, 0.4])
def test_share_of_replaced_equals_that_of_training(mask_prob):
    masking = MaskingConfig(mask_prob=mask_prob)
    longest = 512
    rows = tiny.batch(longest, longest)
    mask = tf.constant(np.tril(np.ones((longest, longest), np.int32))[2:])
    inputs = rows._replace(input_ids=rows.input_ids[2:], input_mask=mask)
    chosen = pretrain_helpers.num_chosen(inputs, masking).numpy()[:, 0]
    sizes = np.arange(1, longest - 1)  # without [CLS] and [SEP]
    found = two_tower.share_of_replaced(sizes, masking, longest)
    expected = np.minimum(chosen / sizes, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_optimal_discriminator_recovers_the_data_distribution():
    """Derives the discriminator from data p, noise q and training's labels."""
    rng = np.random.default_rng(0)
    p, q = (rng.dirichlet(np.ones(7)) for _ in range(2))
    share = 0.15
    # Masked and sampled: token v with probability q, real if it is the data's.
    real = (1 - share) * p + share * q * p
    replaced = share * q * (1 - p)
    found = two_tower.electra_log_probs(
        np.log(replaced / real), np.log(q), share
    )
    np.testing.assert_allclose(np.exp(found), p, rtol=1e-9)
