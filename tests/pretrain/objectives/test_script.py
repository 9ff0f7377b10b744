import numpy as np
import tiny

from electra_tf.pretrain import export


def _model(**leaves):
    return tiny.model(tiny.config(objective="script", **leaves))


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
    out, terms = tiny.forward(model, inputs)
    masked = np.take_along_axis(
        _scores(model, out.masked.inputs),
        out.masked.positions.numpy()[..., None],
        1,
    )
    nats = tiny.softmax_nats(masked, out.masked.ids)
    mlm = nats[out.masked.weights.numpy() > 0].mean()
    corrupted = out.fake.inputs
    s = np.log(np.exp(_scores(model, corrupted)).mean(-1))
    fake = corrupted.input_ids.numpy() != inputs.input_ids.numpy()
    real = inputs.input_mask.numpy() > 0
    disc = tiny.sigmoid_nats(s, fake)[real].mean()
    assert 0 < fake.sum() < real.sum()
    np.testing.assert_allclose(terms["masked_lm_loss"].mean(), mlm, rtol=1e-5)
    np.testing.assert_allclose(terms["disc_loss"].mean(), disc, rtol=1e-5)
    np.testing.assert_allclose(
        model.total_loss(terms), 2 * mlm + 3 * disc, rtol=1e-5
    )


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
