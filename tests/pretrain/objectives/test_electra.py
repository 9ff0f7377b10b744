"""Sharing, sampling and a rising weight of ELECTRA's discriminator."""

import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny import KEYS

from electra_tf.pretrain import export, generators
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.random_keys import TrainingKeys


def _model(**leaves):
    return tiny.model(tiny.config(**{"num_hidden_layers": 1, **leaves}))


def _paths(layer):
    return {variable.path for variable in layer.trainable_variables}


WORDS = "electra/embeddings/word_embeddings"
POSITIONS = "electra/embeddings/position_embeddings"
NOTHING, TABLES, ALL = (), ("electra/embeddings/",), ("electra/",)


@pytest.mark.parametrize(
    ("sharing", "shared"),
    [
        ("embeddings", TABLES),
        ("token_and_position_embeddings", (WORDS, POSITIONS)),
        ("token_embeddings", (WORDS,)),
        ("gradient_disentangled", NOTHING),
        ("none", NOTHING),
        ("all", ALL),
    ],
)
def test_generator_sharing_shares_the_named_variables(sharing, shared):
    model = _model(generator_sharing=sharing)
    stored = export.weights_of(model).architecture
    assert stored.generator_sharing == sharing
    main = _paths(model.electra)
    expected = {path for path in main if path.startswith(shared)}
    assert main & _paths(model.generator) == expected


def test_a_rising_disc_weight_scales_gradients_but_not_the_total():
    model = _model(disc_weight_steps=(5, 15), disc_weight=8.0)
    inputs, gradients = tiny.batch(), {}
    paths = [v.path for v in model.trainable_variables]
    for step in (0, 5, 8, 15, 20):
        keys = TrainingKeys(KEYS, tf.fill([8], step / 20))
        sizes = model.loss_denominators(inputs, keys=keys)
        terms, found, _ = model.forward_backward(inputs, keys, sizes)
        gradients[step] = dict(zip(paths, map(np.array, found), strict=True))
    total = terms["masked_lm_loss"].mean() + 8 * terms["disc_loss"].mean()
    np.testing.assert_allclose(tiny.total_loss(model, terms), total, rtol=1e-5)
    for path in (
        WORDS,
        "discriminator_predictions/dense/kernel",
        "generator/encoder/layer_0/output/dense/kernel",
    ):
        of_generator, whole = gradients[0][path], gradients[20][path]
        for step, share in {5: 0, 8: 0.3, 15: 1}.items():
            expected = of_generator + share * (whole - of_generator)
            found = gradients[step][path]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        assert np.any(of_generator) == ("discriminator" not in path)
        assert np.any(whole != of_generator) == ("generator" not in path)


SIZE = tiny.VOCABULARY.size


def _sampling_logits(logits, config, temperature, ids=None):
    """Returns the logits to sample from, for masked ids [B, N]."""
    ids = np.zeros(logits.shape[:2], np.int32) if ids is None else ids
    masked = Masked(tiny.batch(), None, tf.constant(ids), None)
    logits = tf.constant(logits, tf.float32)
    return generators.sampling_logits(logits, masked, config, temperature)


def _probabilities(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    return p / p.sum(-1, keepdims=True)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_unigram_logits_are_the_frequencies_to_a_power(temperature):
    counts = np.array(tiny.COUNTED.counts)
    assert (counts[5:] == 0).any() and (counts[:5] > 0).any()
    power = counts ** (1 / temperature)
    power[:5] = 0  # special tokens, though they are counted here
    logits = generators.constant_logits("unigram", tiny.COUNTED)[None, None]
    found = _sampling_logits(logits, tiny.config(), temperature)
    np.testing.assert_allclose(
        _probabilities(found.numpy())[0, 0], power / power.sum(), atol=1e-7
    )


@pytest.mark.parametrize("disallow_correct", [False, True])
def test_top_k_draws_only_the_likeliest_words_by_their_shares(
    disallow_correct,
):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1, 4, SIZE)).astype(np.float32)
    best = np.argsort(-logits[0])
    truth = best[:, 1].astype(np.int32)[None]  # the second of each slot
    config = tiny.config(top_k=3, disallow_correct=disallow_correct)
    drawn_from = _sampling_logits(logits, config, 0.7, truth).numpy()
    kept = best[:, [0, 2, 3]] if disallow_correct else best[:, :3]
    shares = _probabilities(np.take_along_axis(logits[0], kept, -1) / 0.7)
    expected = np.zeros((4, SIZE))
    np.put_along_axis(expected, kept, shares, -1)
    np.testing.assert_allclose(
        _probabilities(drawn_from)[0], expected, rtol=1e-5
    )
