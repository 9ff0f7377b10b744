"""Sampling distributions of generators, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.config.objectives import ObjectiveConfig
from electra_tf.pretrain import generators
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.util import seeds

SIZE = tiny.VOCABULARY.size
COUNTS = np.array(tiny.COUNTED.counts)


def _masked(ids):
    weights = tf.ones(ids.shape, tf.float32)
    return Masked(tiny.batch(), tf.zeros_like(ids), tf.constant(ids), weights)


def _probabilities(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    return p / p.sum(-1, keepdims=True)


@pytest.mark.parametrize("temperature", [1.0, 2.0, 0.5])
def test_unigram_logits_are_the_frequencies_to_a_power(temperature):
    logits = generators.constant_logits("unigram", tiny.COUNTED)
    power = np.where(np.arange(SIZE) < 5, 0.0, COUNTS) ** (1 / temperature)
    power[:5] = 0  # special tokens, though they are counted here
    assert (COUNTS[5:] == 0).any() and (COUNTS[:5] > 0).any()
    found = generators.sampling_logits(
        tf.constant(logits[None, None]),
        _masked(np.zeros((1, 1), np.int32)),
        ObjectiveConfig(),
        temperature,
    )
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
    config = ObjectiveConfig(top_k=3, disallow_correct=disallow_correct)
    rows = 4000
    drawn_from = generators.sampling_logits(
        tf.constant(np.repeat(logits, rows, 0)),
        _masked(np.repeat(truth, rows, 0)),
        config,
        0.7,
    )
    keys = seeds.row_keys(0, tf.constant(0), tf.range(rows))
    sampled = generators.sample(drawn_from, keys).numpy()
    kept = best[:, [0, 2, 3]] if disallow_correct else best[:, :3]
    for slot in range(4):
        expected = np.zeros(SIZE)
        p = np.exp(logits[0, slot, kept[slot]] / 0.7, dtype=np.float64)
        expected[kept[slot]] = p / p.sum()
        found = np.bincount(sampled[:, slot], minlength=SIZE) / rows
        assert not found[expected == 0].any()
        np.testing.assert_allclose(found, expected, atol=0.04)


def test_the_temperature_follows_the_training_row_by_row():
    logits = np.random.default_rng(0).normal(size=(3, 2, SIZE))
    config = ObjectiveConfig(temperature=2.0, temperature_end=0.5)
    progress = tf.constant([[0.0], [0.5], [1.0]])
    found = generators.sampling_logits(
        tf.constant(logits, tf.float32),
        _masked(np.zeros((3, 2), np.int32)),
        config,
        config.temperature_at(progress),
    )
    divided = logits / np.array([2.0, 1.25, 0.5])[:, None, None]
    np.testing.assert_allclose(found, divided, rtol=1e-5)
    assert ObjectiveConfig(temperature=3.0).temperature_at(0.3) == 3.0
