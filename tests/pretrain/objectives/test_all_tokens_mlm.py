import numpy as np
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.pretrain.objectives import all_tokens_mlm


def _model(**leaves):
    return tiny.model(tiny.config(**{"objective": "all_tokens_mlm", **leaves}))


def _mixture(model, out):
    """Returns p(v | z) by the paper's formula, float64 [B, L, V]."""
    logits = model.logits(out.states).numpy().astype(np.float64)
    words = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    gate = model.copy_predictions(out.states).numpy().astype(np.float64)
    copy = (1 / (1 + np.exp(-gate)))[..., None]
    ids = out.fake.inputs.input_ids.numpy()[..., None]
    is_input = ids == np.arange(tiny.VOCABULARY.size)
    return copy * is_input + (1 - copy) * words


def test_the_loss_is_that_of_the_mixture_at_every_token():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    out, terms = tiny.forward(model, inputs)
    mixture = _mixture(model, out)
    np.testing.assert_allclose(mixture.sum(-1), 1.0)
    truth = inputs.input_ids.numpy()
    p = np.take_along_axis(mixture, truth[..., None], -1)[..., 0]
    real = inputs.input_mask.numpy() > 0
    fake = real & (out.fake.inputs.input_ids.numpy() != truth)
    loss = terms["corrector_loss"]
    assert loss.weight == real.sum() and 0 < fake.sum() < real.sum()
    tiny.assert_means(terms, {"corrector_loss": -np.log(p[real]).mean()})
    right = mixture.argmax(-1) == truth
    shares = {"corrector_accuracy": right[real].mean()}
    shares["corrected_share"] = right[fake].mean()
    tiny.assert_means(terms, shares, rtol=1e-6)


def test_log_probabilities_are_those_of_the_mixture():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    out = model.forward(inputs, keys=KEYS, training=False)
    found = model.log_probabilities(out.states, out.fake.inputs.input_ids)
    np.testing.assert_allclose(found, np.log(_mixture(model, out)), atol=1e-4)


def test_the_loss_is_finite_and_right_however_sure_the_gate_is():
    gate = np.array([[-200.0, -30.0, 0.0, 30.0, 200.0]] * 2, np.float32)
    words = np.full((2, 5), -3.0, np.float32)
    is_fake = np.array([[0] * 5, [1] * 5], np.int32)
    variable = tf.Variable(gate)
    with tf.GradientTape() as tape:
        loss = all_tokens_mlm.copy_cross_entropy(variable, words, is_fake)
        total = tf.reduce_sum(loss)
    wide = gate.astype(np.longdouble)
    log_copy, log_word = (-np.logaddexp(0, z) for z in (-wide, wide))
    expected = np.where(
        is_fake, -(log_word - 3), -np.logaddexp(log_copy, log_word - 3)
    )
    np.testing.assert_allclose(
        loss, expected.astype(float), rtol=1e-5, atol=1e-5
    )
    assert np.isfinite(tape.gradient(total, variable)).all()
