import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_language

from electra_tf.pretrain import health, pretraining_run
from electra_tf.util import seeds

KEYS = seeds.row_keys(0, tf.constant(0), tf.range(8))


def _model(**leaves):
    return pretraining_run.make_model(
        tiny.config(**{"objective": "replace_mlm", **leaves}),
        tiny.VOCABULARY,
        tf.distribute.get_strategy(),
    )


def test_the_loss_is_that_of_the_original_tokens_at_the_chosen_positions():
    model = _model(initializer_range=0.3, corrector_weight=3.0, gen_weight=2.0)
    inputs = tiny.batch()
    out = model.forward(inputs, keys=KEYS, training=False)
    terms = model.compute_losses(inputs, keys=KEYS, training=False)
    logits = model.logits(out.states).numpy().astype(np.float64)  # [B, L, V]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats, hits = [], []
    for row in range(8):
        used = out.masked.weights[row].numpy() > 0
        for t in out.masked.positions[row].numpy()[used]:
            truth = inputs.input_ids[row, t].numpy()
            nats.append(-log_p[row, t, truth])
            hits.append(log_p[row, t].argmax() == truth)
    loss = terms["corrector_loss"]
    np.testing.assert_allclose(loss.mean(), np.mean(nats), rtol=1e-5)
    assert loss.weight == len(nats)
    np.testing.assert_allclose(
        terms["corrector_accuracy"].mean(), np.mean(hits), rtol=1e-6
    )
    np.testing.assert_allclose(
        model.total_loss(terms),
        2 * terms["masked_lm_loss"].mean() + 3 * np.mean(nats),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        model.log_probabilities(out.states, None), log_p, atol=1e-5
    )


def test_the_corrector_reads_samples_and_no_masks():
    model, inputs = _model(mask_token_prob=1.0), tiny.batch()
    electra = _model(mask_token_prob=1.0, objective="electra")
    out = model.forward(inputs, keys=KEYS, training=False)
    theirs = electra.forward(inputs, keys=KEYS, training=False)
    assert (
        (out.masked.inputs.input_ids == tiny.VOCABULARY.mask_id).numpy().any()
    )
    np.testing.assert_array_equal(out.masked.positions, theirs.masked.positions)
    output = model.electra(*out.fake.inputs)
    np.testing.assert_array_equal(out.states, output.sequence_output)


@pytest.mark.parametrize("objective", ["replace_mlm", "all_tokens_mlm"])
def test_each_loss_reaches_its_own_network(objective):
    model = _model(objective=objective, initializer_range=0.2)
    inputs = tiny.batch()
    corrector = tiny_language.gradients(model, "corrector_loss", inputs, KEYS)
    mlm = tiny_language.gradients(model, "masked_lm_loss", inputs, KEYS)
    for path in corrector:
        if path.startswith("generator"):
            assert corrector[path] is None, path
        elif path.startswith("electra/embeddings/"):
            assert corrector[path] > 0 and mlm[path] > 0, path
        else:
            assert mlm[path] is None, path
            if "/key/bias" not in path:
                assert corrector[path] > 0, path


def test_the_two_heads_are_separate():
    model = _model(generator_sharing="all")
    paths = [v.path for v in model.trainable_variables]
    assert "corrector_predictions/dense/kernel" in paths
    assert "generator_predictions/dense/kernel" in paths
    assert not any("discriminator" in path for path in paths)


@pytest.mark.parametrize("objective", ["replace_mlm", "all_tokens_mlm"])
def test_a_run_starts_where_networks_guess(objective):
    model, inputs = _model(objective=objective), tiny.batch()
    terms = model.compute_losses(inputs, keys=KEYS, training=True)
    np.testing.assert_allclose(
        model.total_loss(terms), health.expected_start(model), rtol=0.05
    )


@pytest.mark.slow
def test_it_learns_a_tiny_language():
    model, terms = tiny_language.train(300, objective="replace_mlm")
    loss = terms["corrector_loss"]
    assert loss[-20:].mean() < 0.3 * loss[:5].mean()
    assert tiny_language.evaluate(model)["corrector_accuracy"] > 0.9
