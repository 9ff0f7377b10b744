import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_language

from electra_tf.pretrain import pretraining_run
from electra_tf.util import seeds

KEYS = seeds.row_keys(0, tf.constant(0), tf.range(8))


def _model(**leaves):
    return pretraining_run.make_model(
        tiny.config(**{"objective": "electra_15", **leaves}),
        tiny.VOCABULARY,
        tf.distribute.get_strategy(),
    )


@pytest.mark.parametrize("original", [False, True])
def test_the_loss_is_electras_at_the_chosen_positions(original):
    model = _model(original_masking=original, mask_prob=0.3)
    inputs = tiny.batch()
    out = model.forward(inputs, keys=KEYS, training=False)
    terms = model.compute_losses(inputs, keys=KEYS, training=False)
    chosen = np.zeros(inputs.input_ids.shape, bool)
    for row in range(8):
        used = out.masked.weights[row].numpy() > 0
        chosen[row, out.masked.positions[row].numpy()[used]] = True
    assert not chosen[inputs.input_mask == 0].any()
    fakes = (out.fake.inputs.input_ids != inputs.input_ids).numpy()
    z = out.disc_logits.numpy().astype(np.float64)
    p = 1 / (1 + np.exp(-z))
    nats = -np.where(fakes, np.log(p), np.log(1 - p))
    np.testing.assert_allclose(
        terms["disc_loss"].mean(), nats[chosen].mean(), rtol=1e-5
    )
    assert terms["disc_loss"].weight == chosen.sum()
    np.testing.assert_allclose(
        terms["disc_accuracy"].mean(),
        ((z > 0) == fakes)[chosen].mean(),
        rtol=1e-6,
    )


def test_all_else_is_electra():
    inputs = tiny.batch()
    model, electra = _model(), _model(objective="electra")
    ours = model.forward(inputs, keys=KEYS, training=False)
    theirs = electra.forward(inputs, keys=KEYS, training=False)
    for one, other in zip(
        tf.nest.flatten(vars(ours)),
        tf.nest.flatten(vars(theirs)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    terms = electra.compute_losses(inputs, keys=KEYS, training=False)
    found = model.compute_losses(inputs, keys=KEYS, training=False)
    np.testing.assert_array_equal(
        found["masked_lm_loss"], terms["masked_lm_loss"]
    )


def test_each_loss_reaches_its_own_network():
    model, inputs = _model(initializer_range=0.2), tiny.batch()
    heads = ("generator", "discriminator_predictions")
    disc = tiny_language.gradients(model, "disc_loss", inputs, KEYS)
    mlm = tiny_language.gradients(model, "masked_lm_loss", inputs, KEYS)
    for path in disc:
        if path.startswith(heads[0]):
            assert disc[path] is None
        elif path.startswith(heads[1]):
            assert mlm[path] is None and disc[path] > 0
    assert disc["electra/embeddings/word_embeddings"] > 0
    assert mlm["electra/embeddings/word_embeddings"] > 0
    assert mlm["electra/encoder/layer_0/output/dense/kernel"] is None


def test_the_verdicts_that_count_are_at_the_chosen_positions():
    model, inputs = _model(), tiny.batch()
    terms, detection = model.evaluation_step(inputs, keys=KEYS)
    judged = detection.judged.numpy()
    assert judged.sum() == terms["disc_loss"].weight
    assert judged.sum() < inputs.input_mask.numpy().sum() / 4


@pytest.mark.slow
def test_it_learns_a_tiny_language():
    model, terms = tiny_language.train(600, objective="electra_15")
    assert terms["disc_loss"][-20:].mean() < 0.5 * terms["disc_loss"][:5].mean()
    metrics = tiny_language.evaluate(model)
    assert metrics["masked_lm_loss"] < 2.0 < np.log(tiny.VOCABULARY.size)
    assert metrics["disc_auc"] > 0.9
