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
        tiny.config(objective="script", **leaves),
        tiny.VOCABULARY,
        tf.distribute.get_strategy(),
    )


def _scores(model, inputs):
    """Returns what the head says of every word, float64 [B, L, V]."""
    head = model.generator_predictions
    states = model.electra(*inputs).sequence_output
    table = model.electra.embeddings.word_embeddings.numpy()
    scores = head.project(states).numpy() @ table.T + head.output_bias.numpy()
    return scores.astype(np.float64)


def test_losses_equal_their_formulas():
    model = _model(initializer_range=0.3, gen_weight=2.0, disc_weight=3.0)
    inputs = tiny.batch()
    model.generator_predictions.output_bias.assign(
        np.linspace(-1, 1, tiny.VOCABULARY.size)
    )
    out = model.forward(inputs, keys=KEYS, training=False)
    terms = model.compute_losses(inputs, keys=KEYS, training=False)
    masked = np.take_along_axis(
        _scores(model, out.masked.inputs),
        out.masked.positions.numpy()[..., None],
        1,
    )
    p = np.exp(masked) / np.exp(masked).sum(-1, keepdims=True)
    p = np.take_along_axis(p, out.masked.ids.numpy()[..., None], -1)[..., 0]
    mlm = -np.log(p[out.masked.weights.numpy() > 0]).mean()
    corrupted = out.fake.inputs
    s = np.log(np.exp(_scores(model, corrupted)).mean(-1))
    fake = corrupted.input_ids.numpy() != inputs.input_ids.numpy()
    verdict = 1 / (1 + np.exp(-s))
    real = inputs.input_mask.numpy() > 0
    disc = -np.log(np.where(fake, verdict, 1 - verdict)[real]).mean()
    assert 0 < fake.sum() < real.sum()
    np.testing.assert_allclose(terms["masked_lm_loss"].mean(), mlm, rtol=1e-5)
    np.testing.assert_allclose(terms["disc_loss"].mean(), disc, rtol=1e-5)
    np.testing.assert_allclose(
        model.total_loss(terms), 2 * mlm + 3 * disc, rtol=1e-5
    )


def test_both_losses_reach_the_one_network():
    model, inputs = _model(initializer_range=0.2), tiny.batch()
    assert not any("generator/" in v.path for v in model.trainable_variables)
    assert not any("discriminator" in v.path for v in model.variables)
    for loss in ("masked_lm_loss", "disc_loss"):
        found = tiny_language.gradients(model, loss, inputs, KEYS)
        for path, largest in found.items():
            if "/key/bias" not in path:
                assert largest > 0, path


def test_a_run_starts_where_networks_guess():
    model = _model(disc_weight=7.0)
    terms = model.compute_losses(tiny.batch(), keys=KEYS, training=True)
    np.testing.assert_allclose(
        model.total_loss(terms), health.expected_start(model), rtol=0.05
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("generator_type", "uniform"),
        ("generator_sharing", "gradient_disentangled"),
    ],
)
def test_a_generator_that_is_not_the_network_is_refused(name, value):
    with pytest.raises(UserError, match=f"Received: {name}={value}"):
        _model(**{name: value})


def test_its_verdicts_are_exported():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    networks = export.networks_of(model)
    assert list(networks) == ["discriminator", "generator"]
    found = networks["discriminator"].predict(inputs._asdict())[
        "probability_replaced"
    ]
    odds = np.exp(_scores(model, inputs)).mean(-1)
    expected = odds / (1 + odds) * inputs.input_mask.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.slow
def test_it_learns_a_tiny_language():
    model, terms = tiny_language.train(
        400, objective="script", disc_weight=50.0
    )
    for name in ("masked_lm_loss", "disc_loss"):
        assert terms[name][-20:].mean() < 0.6 * terms[name][:5].mean(), name
    assert tiny_language.evaluate(model)["disc_auc"] > 0.9
