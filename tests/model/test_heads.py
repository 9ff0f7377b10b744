"""Layers come back from files; the heads equal their formulas in NumPy."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import heads

H, E, V = 6, 4, 9
CONFIG = BertConfig(
    vocab_size=V,
    hidden_size=H,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=8,
    embedding_size=E,
)
RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(2, 3, H))
TABLE = RNG.normal(size=(V, E))
WORDS = np.array([[[1, 2], [8, 8], [0, 5]], [[3, 1], [4, 0], [7, 6]]])

_erf = np.vectorize(math.erf)


def _gelu(x):
    return x * 0.5 * (1 + _erf(x / math.sqrt(2)))


def _normalized(x, gamma, beta):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12) * gamma + beta


def _filled(head):
    """Builds a head with random weights; returns them by name."""
    head.build((None, None, H))
    found = {}
    for variable in head.weights:
        value = RNG.normal(size=variable.shape)
        variable.assign(value)
        found[variable.path.split("/", 1)[1].replace("/", "_")] = value
    return found


def _project(w):
    hidden = _gelu(STATES @ w["dense_kernel"] + w["dense_bias"])
    return _normalized(hidden, w["LayerNorm_gamma"], w["LayerNorm_beta"])


def _logits(head, *arguments):
    x, table = tf.constant(STATES, "float32"), tf.constant(TABLE, "float32")
    return head(x, *arguments, table)


def test_the_generator_compares_a_projected_state_with_every_word():
    head = heads.GeneratorPredictions(CONFIG)
    w = _filled(head)
    expected = _project(w) @ TABLE.T + w["output_bias"]
    np.testing.assert_allclose(_logits(head), expected, 1e-4, 1e-5)


def test_the_discriminator_scores_each_token():
    head = heads.DiscriminatorPredictions(CONFIG)
    w = _filled(head)
    hidden = _gelu(STATES @ w["dense_kernel"] + w["dense_bias"])
    expected = hidden @ w["dense_1_kernel"] + w["dense_1_bias"]
    found = head(tf.constant(STATES, "float32"))
    np.testing.assert_allclose(found, expected[..., 0], 1e-4, 1e-5)


@pytest.mark.parametrize("has_neither", [False, True])
def test_selection_compares_a_projected_state_with_the_words_given(has_neither):
    head = heads.SelectionPredictions(CONFIG, has_neither=has_neither)
    w = _filled(head)
    x = _project(w)
    expected = np.einsum("bne,bnke->bnk", x, TABLE[WORDS])
    if has_neither:
        expected = np.concatenate([x @ w["neither"], expected], -1)
    found = _logits(head, tf.constant(WORDS))
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
