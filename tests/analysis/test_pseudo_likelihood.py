import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.pretrain import pseudo_likelihood
from electra_tf.util.errors import UserError


def _model(**leaves):
    return tiny.model(tiny.config(initializer_range=0.3, **leaves))


def _scored(inputs):
    """Returns bool [B, L]: all but [CLS], [SEP], [MASK] and padding."""
    ids = inputs.input_ids.numpy()
    return (inputs.input_mask.numpy() > 0) & ~np.isin(ids, (2, 3, 4))


def test_electric_scores_are_energies_with_the_other_sign():
    model, inputs = _model(objective="electric"), tiny.batch()
    scores = pseudo_likelihood.score(model, inputs)
    states = model.electra(*inputs).sequence_output
    energies = model.discriminator_predictions(states).numpy()
    scored = _scored(inputs)
    expected = np.where(scored, -energies, 0)
    np.testing.assert_allclose(scores.log_probs, expected, atol=1e-6)
    np.testing.assert_array_equal(scores.weights, scored)
    np.testing.assert_allclose(scores.totals(), expected.sum(1), rtol=1e-5)


@pytest.mark.parametrize("mask_prob", [0.15, 0.4])
def test_electra_scores_equal_the_formula(mask_prob):
    model = _model(generator_type="two_tower", mask_prob=mask_prob)
    inputs = tiny.batch()
    scores = pseudo_likelihood.score(model, inputs)
    states = model.generator(*inputs)
    logits = model.cloze_predictions(states, model.generator.word_embeddings)
    exp = np.exp(logits.numpy().astype(np.float64))
    q = exp / exp.sum(-1, keepdims=True)
    q = np.take_along_axis(q, inputs.input_ids.numpy()[..., None], -1)[..., 0]
    z = model.discriminate(inputs).numpy().astype(np.float64)
    real = 1 / (1 + np.exp(z))
    k = np.round(mask_prob * inputs.input_mask.numpy().sum(1, keepdims=True))
    k = np.clip(k, 1, int((mask_prob + 0.005) * tiny.LENGTH))
    m = _scored(inputs).sum(1, keepdims=True)
    assert np.all(k < m)
    a = (m - k) / k
    p = real * q / (a * (1 - real) + q)
    expected = np.where(_scored(inputs), np.log(p), 0)
    np.testing.assert_allclose(scores.log_probs, expected, rtol=1e-4, atol=1e-5)


def test_the_formula_gives_back_the_data_from_the_best_discriminator():
    """Of data p and noise q, labels as in training: the derivation, counted."""
    rng = np.random.default_rng(0)
    p, q = (rng.dirichlet(np.ones(7)) for _ in range(2))
    share = 0.15
    # Masked and sampled: token v with probability q, real if it is the data's.
    real = (1 - share) * p + share * q * p
    replaced = share * q * (1 - p)
    logits = np.log(replaced / real)
    found = pseudo_likelihood.electra_log_probs(
        tf.constant(logits[None], tf.float32),
        tf.constant(np.log(q)[None], tf.float32),
        share,
    )
    np.testing.assert_allclose(np.exp(found[0]), p, rtol=1e-4)


def test_extreme_logits_stay_finite():
    z = tf.constant([[-200.0, 0.0, 200.0]])
    found = pseudo_likelihood.electra_log_probs(z, z * 0 - 300.0, 0.15)
    assert np.isfinite(found).all()
    assert np.all(found.numpy() <= 0)


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        ({"objective": "mlm"}, "Received: objective=mlm"),
        ({}, "generator_type=transformer"),
        ({"generator_type": "two_tower", "temperature": 2.0}, "temperature=2"),
        (
            {"generator_type": "two_tower", "disallow_correct": True},
            "disallow_correct=True",
        ),
    ],
)
def test_models_without_a_score_are_refused(leaves, message):
    with pytest.raises(UserError, match=message):
        pseudo_likelihood.score(_model(**leaves), tiny.batch())
