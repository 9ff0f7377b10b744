"""Masked language modelling against its formula, and on a tiny language."""

import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_language

from electra_tf.util import seeds

KEYS = seeds.row_keys(0, tf.constant(0), tf.range(8))


def test_the_loss_is_the_cross_entropy_at_masked_slots():
    config = tiny.config(objective="mlm", initializer_range=0.3)
    model, inputs = tiny.model(config), tiny.batch()
    out = model.forward(inputs, keys=KEYS, training=False)
    used = out.masked.weights.numpy() > 0
    words = np.take_along_axis(
        inputs.input_ids.numpy(), out.masked.positions.numpy(), 1
    )
    z = out.mlm_logits.numpy().astype(np.float64)
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    p = np.take_along_axis(p, words[..., None], -1)[..., 0]
    terms = model.compute_losses(inputs, keys=KEYS, training=False)
    np.testing.assert_allclose(
        terms["masked_lm_loss"].mean(), -np.log(p[used]).mean(), rtol=1e-5
    )
    assert model.total_loss(terms) == terms["masked_lm_loss"].mean()


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["mlm", "mlm_sentence"])
def test_it_learns_a_tiny_language(objective, monkeypatch):
    monkeypatch.setattr(tiny_language, "rows", tiny_language.pairs)
    model, terms = tiny_language.train(300, objective=objective)
    for name in model.loss_weights:
        assert terms[name][-20:].mean() < 0.2 * terms[name][:5].mean(), name
    metrics = tiny_language.evaluate(model)
    assert metrics["masked_lm_accuracy"] > 0.9
    assert metrics.get("sentence_accuracy", 1) > 0.9
