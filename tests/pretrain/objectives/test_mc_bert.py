import numpy as np
import tensorflow as tf
import tiny
from tiny import KEYS


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
