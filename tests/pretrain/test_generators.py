"""Sampling distributions of generators, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import generators
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.util import seeds

SIZE = tiny.VOCABULARY.size


def _sampling_logits(logits, config, temperature, ids=None):
    """Returns the logits to sample from, for masked ids [B, N]."""
    ids = np.zeros(logits.shape[:2], np.int32) if ids is None else ids
    masked = Masked(tiny.batch(), None, tf.constant(ids), None)
    logits = tf.constant(logits, tf.float32)
    return generators.sampling_logits(logits, masked, config, temperature)


def _probabilities(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    return p / p.sum(-1, keepdims=True)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_unigram_logits_are_the_frequencies_to_a_power(temperature):
    counts = np.array(tiny.COUNTED.counts)
    assert (counts[5:] == 0).any() and (counts[:5] > 0).any()
    power = counts ** (1 / temperature)
    power[:5] = 0  # special tokens, though they are counted here
    logits = generators.constant_logits("unigram", tiny.COUNTED)[None, None]
    found = _sampling_logits(logits, tiny.config(), temperature)
    np.testing.assert_allclose(
        _probabilities(found.numpy())[0, 0], power / power.sum(), atol=1e-7
    )


@pytest.mark.parametrize("disallow_correct", [False, True])
def test_top_k_draws_only_the_likeliest_words_by_their_shares(
    disallow_correct,
):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1, 4, SIZE)).astype(np.float32)
    best = np.argsort(-logits[0])
    truth = best[:, 1].astype(np.int32)[None]  # the second of each slot
    config = tiny.config(top_k=3, disallow_correct=disallow_correct)
    rows = 4000
    drawn_from = _sampling_logits(
        np.repeat(logits, rows, 0), config, 0.7, np.repeat(truth, rows, 0)
    )
    keys = seeds.row_keys(0, tf.constant(0), tf.range(rows))
    sampled = generators.sample(drawn_from, keys).numpy()
    kept = best[:, [0, 2, 3]] if disallow_correct else best[:, :3]
    for slot in range(4):
        expected = np.zeros(SIZE)
        expected[kept[slot]] = _probabilities(logits[0, slot, kept[slot]] / 0.7)
        found = np.bincount(sampled[:, slot], minlength=SIZE) / rows
        assert not found[expected == 0].any()
        np.testing.assert_allclose(found, expected, atol=0.04)
