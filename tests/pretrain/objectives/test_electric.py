"""Electric and two-tower ELECTRA against their formulas, in NumPy."""

import json
import math

import golden_arrays
import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf import configure_pretraining as configure
from electra_tf.config.objectives import get_class
from electra_tf.model import pseudo_likelihood
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import evaluation

ELECTRIC = {"objective": "electric"}
TWO_TOWER = {"generator_type": "two_tower"}
BOTH = pytest.mark.parametrize(
    "leaves", [ELECTRIC, TWO_TOWER], ids=["electric", "two towers"]
)
FREQUENCIES = (0.5, 0.25, 0.125, 0.125)


def _model(vocabulary=tiny.VOCABULARY, **leaves):
    small = {"initializer_range": 0.3, "num_hidden_layers": 1}
    config = tiny.config(**small | leaves)
    return tiny.model(config, vocabulary)


def _log_q(model, inputs):
    """Computes log q of every word at every token, float64 [B, L, V]."""
    states = model.generator(*inputs)
    table = model.generator.word_embeddings
    logits = model.cloze_predictions(states, table).numpy().astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def _of(log_q, ids):
    return np.take_along_axis(log_q, np.asarray(ids)[..., None], -1)[..., 0]


@BOTH
def test_losses_equal_their_formulas(leaves):
    model, inputs = _model(mask_prob=0.3, **leaves), tiny.batch()
    out, terms = tiny.forward(model, inputs)
    log_q = _log_q(model, inputs)
    cloze = -_of(log_q, inputs.input_ids)[tiny.candidates(inputs)].mean()
    noised = out.fake.inputs
    states = model.electra(*noised).sequence_output
    z = model.discriminator_predictions(states).numpy().astype(np.float64)
    labels = noised.input_ids.numpy() != inputs.input_ids.numpy()
    if leaves == ELECTRIC:
        labels = tiny.chosen(out.masked)
        k = labels.sum(1, keepdims=True)
        m = tiny.candidates(inputs).sum(1, keepdims=True)
        assert np.all(k < m)
        z += _of(log_q, noised.input_ids) + np.log(k / (m - k))
    real = inputs.input_mask.numpy() > 0
    disc = tiny.sigmoid_nats(z, labels)[real].mean()
    np.testing.assert_allclose(
        out.disc_logits.numpy()[real], z[real], rtol=1e-4, atol=1e-4
    )
    masked_lm = -_of(log_q, inputs.input_ids)[tiny.chosen(out.masked)].mean()
    losses = {"cloze_loss": cloze, "disc_loss": disc}
    tiny.assert_means(terms, {**losses, "masked_lm_loss": masked_lm})
    right = log_q.argmax(-1) == inputs.input_ids.numpy()
    shares = {
        "cloze_accuracy": right[tiny.candidates(inputs)].mean(),
        "replaced_share": labels[real].mean(),
    }
    tiny.assert_means(terms, shares, rtol=1e-6)


def _always_predict(model, word):
    bias = 1e4 * tf.one_hot(word, tiny.VOCABULARY.size)
    model.cloze_predictions.output_bias.assign(bias)


@pytest.mark.parametrize(
    ("leaves", "count_as_noise"), [(ELECTRIC, True), (TWO_TOWER, False)]
)
def test_right_samples_are_noise_to_electric_alone(leaves, count_as_noise):
    model, inputs = _model(**leaves), tiny.batch()
    _always_predict(model, 9)
    ids = tf.where(tiny.candidates(inputs), 9, inputs.input_ids)
    inputs = inputs._replace(input_ids=ids)
    out = model.forward(inputs, keys=KEYS, training=False)
    np.testing.assert_array_equal(out.fake.inputs.input_ids, ids)
    expected = tiny.chosen(out.masked) * count_as_noise
    np.testing.assert_array_equal(out.fake.is_fake_tokens, expected)
    text = evaluation.samples(model, tf.data.Dataset.from_tensors(inputs), 8)
    verdicts = text.count("caught") + text.count("missed")
    assert verdicts == expected.sum()


def _words_of_known_frequency(seed, num_rows=64):
    """Returns rows of words drawn independently from four."""
    inputs = tiny.batch(num_rows, seed=seed)
    ids = inputs.input_ids.numpy()
    words = np.random.default_rng(seed).choice(4, ids.shape, p=FREQUENCIES)
    words = np.where(tiny.candidates(inputs), 5 + words, ids)
    return inputs._replace(input_ids=tf.constant(words, tf.int32))


@pytest.mark.slow
@BOTH
def test_scores_of_a_language_become_its_probabilities(leaves):
    """They add up to 1 without a softmax, in rows of 5 to 16 tokens."""
    model = _model(
        learning_rate=0.01,
        num_train_steps=200,
        num_warmup_steps=20,
        mask_prob=0.3,
        initializer_range=0.02,
        **leaves,
    )
    step = tf.function(model.update, autograph=False)
    for seed in range(200):
        step(_words_of_known_frequency(seed))
    inputs = _words_of_known_frequency(seed=1000, num_rows=256)
    logits = model.discriminate(inputs).numpy()
    if model.config.objective.objective == "electric":
        log_probs = -logits
    else:
        log_probs = pseudo_likelihood.electra_log_probs(
            logits,
            model.cloze(inputs)[0].log_probs(inputs.input_ids).numpy(),
            pseudo_likelihood.share_of_replaced(
                tiny.candidates(inputs).sum(1, keepdims=True),
                model.config.masking,
                tiny.LENGTH,
            ),
        ).numpy()
    found = [
        np.exp(log_probs[inputs.input_ids == 5 + word].mean())
        for word in range(4)
    ]
    np.testing.assert_allclose(found, FREQUENCIES, rtol=0.15)
    np.testing.assert_allclose(sum(found), 1, rtol=0.05)


@pytest.mark.parametrize(
    ("name", "leaves"),
    [
        ("small_electric", ELECTRIC),
        pytest.param("small_two_tower", TWO_TOWER, marks=pytest.mark.slow),
    ],
)
def test_names_and_shapes_at_full_size_are_the_originals(name, leaves):
    config = configure.PretrainingConfig(
        run=configure.RunConfig(data_dir="d", model_name="m"),
        objective=configure.ObjectiveConfig(**leaves),
    )
    tokens = tiny.SPECIALS + tuple(f"w{i}" for i in range(30522 - 5))
    objective = get_class(config.objective.objective)
    model = objective(config, Vocabulary(tokens))
    shapes = {v.path: tuple(v.shape) for v in model.trainable_variables}
    assert sum(map(math.prod, shapes.values())) == 14_812_475
    path = golden_arrays.ROOT / "model/real_sizes_variables.json"
    if path.exists():
        listed = json.loads(path.read_text())[name]["variables"]
        assert shapes == {name: tuple(shape) for name, shape, _ in listed}


def test_original_noise_odds_follow_the_final_mask_prob():
    leaves = {"original_noise_odds": True, "mask_prob_end": 0.4, **ELECTRIC}
    with_odds = _model(mask_prob=0.15, **leaves)
    without = _model(mask_prob=0.15, **{**leaves, "original_noise_odds": False})
    without._log_odds = lambda *_: 0.0
    inputs = tiny.batch()
    found, expected = (
        tiny.forward(model, inputs)[0].disc_logits.numpy()
        for model in (with_odds, without)
    )
    np.testing.assert_allclose(
        found - expected, np.log(0.4 / 0.6), rtol=1e-3, atol=1e-3
    )
