import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_language

from electra_tf.pretrain import export, health, pretraining_run
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

KEYS = seeds.row_keys(0, tf.constant(0), tf.range(8))


def _model(**leaves):
    return pretraining_run.make_model(
        tiny.config(**{"objective": "mc_bert", "num_candidates": 6, **leaves}),
        tiny.VOCABULARY,
        tf.distribute.get_strategy(),
    )


def _answers(model, inputs, words):
    """Returns the scores of <neither> and of words, float64 [B, L, K]."""
    head = model.selection_predictions
    states = model.electra(*inputs).sequence_output
    x = head.layer_norm(tf.nn.gelu(head.dense(states))).numpy()
    table = model.electra.embeddings.word_embeddings.numpy()
    scores = (table[words] * x[..., None, :]).sum(-1)
    neither = x @ head.neither.numpy()
    return np.concatenate([neither, scores], -1).astype(np.float64)


def test_the_loss_is_that_of_a_choice_among_words_and_neither():
    model = _model(
        initializer_range=0.3, selection_weight=3.0, mask_prob=0.5, gen_weight=2
    )
    inputs = tiny.batch()
    out = model.forward(inputs, keys=KEYS, training=False)
    terms = model.compute_losses(inputs, keys=KEYS, training=False)
    truth, words = inputs.input_ids.numpy(), out.words.numpy()
    fake = out.fake.inputs.input_ids.numpy() != truth
    real = inputs.input_mask.numpy() > 0
    assert words.shape == (8, tiny.LENGTH, 5) and 0 < fake.sum() < real.sum()
    np.testing.assert_array_equal(words[fake][:, 0], truth[fake])
    p = np.exp(_answers(model, out.fake.inputs, words))
    # Only once, and only where the token was replaced, can x_t be chosen.
    is_truth = words == truth[..., None]
    is_truth[fake, 0] = False
    assert is_truth[real].any()
    p[..., 1:][is_truth] = 0
    p /= p.sum(-1, keepdims=True)
    chosen = np.where(fake, p[..., 1], p[..., 0])
    nats = -np.log(chosen[real]).mean()
    right = (p.argmax(-1) == fake)[real].mean()
    np.testing.assert_allclose(terms["selection_loss"].mean(), nats, rtol=1e-5)
    np.testing.assert_allclose(
        terms["selection_accuracy"].mean(), right, rtol=1e-6
    )
    verdicts = np.log(1 - p[..., 0][real]) - np.log(p[..., 0][real])
    np.testing.assert_allclose(
        out.disc_logits.numpy()[real], verdicts, rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(
        model.total_loss(terms),
        2 * terms["masked_lm_loss"].mean() + 3 * nats,
        rtol=1e-5,
    )


def test_words_are_samples_of_the_generator():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    bias = model.generator_predictions.output_bias
    bias.assign(1e4 * tf.one_hot(9, tiny.VOCABULARY.size))  # it always says 9
    out = model.forward(inputs, keys=KEYS, training=False)
    fake = out.fake.is_fake_tokens.numpy() > 0
    assert np.all(out.words.numpy()[~fake] == 9)
    assert np.all(out.words.numpy()[fake][:, 1:] == 9)


def test_each_loss_reaches_its_own_network():
    model = _model(initializer_range=0.2, generator_sharing="none")
    choice, mlm = (
        tiny_language.gradients(model, loss, tiny.batch(), KEYS)
        for loss in ("selection_loss", "masked_lm_loss")
    )
    for path in choice:
        own, other = choice[path], mlm[path]
        if path.startswith("generator"):
            own, other = other, own
        assert other is None, path
        assert "/key/bias" in path or own > 0, path


def test_its_verdicts_are_exported():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    networks = export._networks(model)
    assert list(networks) == ["discriminator", "generator"]
    found = networks["discriminator"].predict(inputs)["probability_replaced"]
    head = model.generator_predictions
    states = model.generator(*inputs).sequence_output
    table = model.generator.embeddings.word_embeddings
    words = np.argsort(-head(states, table).numpy(), -1)[..., :5]
    p = np.exp(_answers(model, inputs, words))
    p[..., 1:][words == inputs.input_ids.numpy()[..., None]] = 0
    expected = 1 - p[..., 0] / p.sum(-1)
    np.testing.assert_allclose(
        found, expected * inputs.input_mask.numpy(), rtol=1e-4, atol=1e-6
    )


def test_a_run_starts_where_networks_guess():
    model = _model()
    terms = model.compute_losses(tiny.batch(), keys=KEYS, training=True)
    np.testing.assert_allclose(
        model.total_loss(terms), health.expected_start(model), rtol=0.05
    )


@pytest.mark.parametrize("objective", ["mc_bert", "teams"])
def test_words_need_a_network_that_offers_them(objective):
    with pytest.raises(UserError, match="Received: generator_type=uniform"):
        _model(objective=objective, generator_type="uniform")


def test_it_learns_a_tiny_language():
    model, terms = tiny_language.train(
        250, objective="mc_bert", num_candidates=6, selection_weight=50.0
    )
    loss = terms["selection_loss"]
    assert loss[-20:].mean() < 0.2 * loss[:5].mean()
    metrics = tiny_language.evaluate(model)
    assert metrics["disc_auc"] > 0.9
    copying = 1 - metrics["replaced_share"]
    assert metrics["selection_accuracy"] > 0.3 + 0.7 * copying
