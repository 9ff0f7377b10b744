import numpy as np
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.pretrain import evaluation, export
from electra_tf.pretrain.random_keys import Purpose, position_keys
from electra_tf.util import seeds


def _model(**leaves):
    small = {"num_hidden_layers": 1, "num_candidates": 6}
    return tiny.model(tiny.config(objective="mc_bert", **small | leaves))


def _choice_scores(model, inputs, words):
    """Returns the scores of <neither> and of words, float64 [B, L, K]."""
    head = model.selection_predictions
    states = model.electra(*inputs).sequence_output
    x = head.layer_norm(tf.nn.gelu(head.dense(states))).numpy()
    table = model.electra.embeddings.word_embeddings.numpy()
    scores = (table[words] * x[..., None, :]).sum(-1)
    neither = x @ head.neither.numpy()
    return np.concatenate([neither, scores], -1).astype(np.float64)


def test_the_loss_is_that_of_a_choice_among_words_and_neither():
    model, inputs = _model(initializer_range=0.3, mask_prob=0.5), tiny.batch()
    out, terms = tiny.forward(model, inputs)
    truth, words = inputs.input_ids.numpy(), out.words.numpy()
    fake = out.fake.inputs.input_ids.numpy() != truth
    real = inputs.input_mask.numpy() > 0
    candidates = words[..., :-1]
    assert (
        candidates.shape == (8, tiny.LENGTH, 5) and 0 < fake.sum() < real.sum()
    )
    np.testing.assert_array_equal(words[..., -1], truth)
    p = np.exp(_choice_scores(model, out.fake.inputs, words))
    verdicts = np.log(p[..., 1:-1].sum(-1)) - np.log(p[..., 0])
    np.testing.assert_allclose(
        out.disc_logits.numpy()[real], verdicts[real], rtol=1e-3, atol=1e-4
    )
    # x_t can be chosen once, and only where the token was replaced: there it
    # takes its own place among the words, or the last one's.
    is_truth = candidates == truth[..., None]
    is_truth[..., -1] |= ~is_truth.any(-1)
    assert is_truth[fake][:, :-1].any() and is_truth[fake][:, -1].any()
    p[..., 1:-1] *= ~(is_truth & fake[..., None])
    p[..., -1] *= fake
    assert np.all((p > 0).sum(-1) == 6)
    p /= p.sum(-1, keepdims=True)
    chosen = np.where(fake, p[..., -1], p[..., 0])
    nats = -np.log(chosen[real]).mean()
    right = (p.argmax(-1) == 6 * fake)[real].mean()
    tiny.assert_means(terms, {"selection_loss": nats})
    tiny.assert_means(terms, {"selection_accuracy": right}, rtol=1e-6)


def test_candidates_are_the_generators_likeliest_other_words():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    likely = np.arange(20, 26)
    bias = np.zeros(tiny.VOCABULARY.size)
    bias[likely] = 1e4  # it predicts nothing else
    model.generator_predictions.output_bias.assign(bias)
    out = model.forward(inputs, keys=KEYS, training=False)
    candidates = out.words.numpy()[..., :-1]
    for words, token in zip(
        candidates.reshape(-1, 5),
        out.fake.inputs.input_ids.numpy().ravel(),
        strict=True,
    ):
        assert len({*words}) == 5 and token not in words
        assert {*words} <= {*likely}


def test_candidates_are_a_function_of_the_corrupted_text():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    out = model.forward(inputs, keys=KEYS, training=False)
    found = model._candidates(
        out.fake.inputs, position_keys(KEYS, Purpose.CANDIDATES, tiny.LENGTH)
    )
    np.testing.assert_array_equal(out.words[..., :-1], found)


def _copying(**leaves):
    """Returns a model whose generator repeats unmasked tokens."""
    model = _model(
        hidden_size=32,
        embedding_size=32,
        generator_hidden_size=1.0,
        generator_sharing="none",
        **leaves,
    )
    table = np.random.default_rng(0).normal(size=(tiny.VOCABULARY.size, 32))
    table[tiny.VOCABULARY.mask_id] = 0
    for variable in model.generator.weights:
        if variable.path.endswith("/output/dense/kernel"):
            variable.assign(tf.zeros_like(variable))
    embeddings = model.generator.embeddings
    embeddings.word_embeddings.assign(table)
    embeddings.position_embeddings.assign(np.zeros((32, 32)))
    model.generator_predictions.dense.kernel.assign(np.eye(32))
    return model


def test_an_untrained_encoder_is_at_chance_whatever_the_generator_knows():
    model, inputs = _copying(mask_prob=0.3), tiny.batch(128)
    states = model.generator(*inputs).sequence_output
    best = np.argmax(model.generator_model.score(states), -1)
    real = inputs.input_mask.numpy() > 0
    assert np.mean((best == inputs.input_ids.numpy())[real]) > 0.99
    keys = seeds.row_keys(0, tf.constant(0), tf.range(128))
    out = model.forward(inputs, keys=keys, training=True)
    num_choices = (out.selection_logits.numpy() > -1e8).sum(-1)
    assert np.all(num_choices == 6)  # nowhere is <neither> alone
    _, detection = model.evaluation_step(inputs, keys=keys)
    is_word = inputs.input_ids.numpy() >= len(tiny.SPECIALS)
    labels = detection.labels.numpy()[is_word]
    for logits in (detection.logits, out.disc_logits):
        scores = logits.numpy()[is_word]
        assert abs(evaluation.area_under_curve(scores, labels) - 0.5) < 0.1


def test_evaluation_judges_the_verdicts_that_are_exported():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    terms, detection = model.evaluation_step(inputs, keys=KEYS)
    out = model.forward(inputs, keys=KEYS, training=False)
    exported = model.discriminate(out.fake.inputs)
    np.testing.assert_allclose(detection.logits, exported, rtol=1e-5)
    real = inputs.input_mask.numpy() > 0
    fake = out.fake.is_fake_tokens.numpy()[real]
    logits = exported.numpy()[real].astype(np.float64)
    nats = np.mean(np.log1p(np.exp(logits)) - fake * logits)
    tiny.assert_means(terms, {"disc_loss": nats})


def test_the_exported_discriminator_equals_its_formula():
    model, inputs = _model(initializer_range=0.3), tiny.batch()
    networks = export.networks_of(model)
    assert list(networks) == ["discriminator", "generator"]
    found = networks["discriminator"].predict(inputs._asdict())[
        "probability_replaced"
    ]
    head = model.generator_predictions
    states = model.generator(*inputs).sequence_output
    table = model.generator.embeddings.word_embeddings
    logits = head(states, table).numpy()
    np.put_along_axis(logits, inputs.input_ids.numpy()[..., None], -np.inf, -1)
    words = np.argsort(-logits, -1)[..., :5]
    p = np.exp(_choice_scores(model, inputs, words))
    expected = 1 - p[..., 0] / p.sum(-1)
    np.testing.assert_allclose(
        found, expected * inputs.input_mask.numpy(), rtol=1e-4, atol=1e-6
    )
