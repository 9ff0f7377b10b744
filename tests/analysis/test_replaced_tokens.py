"""Tokens are replaced as in training, and scored by the networks."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny

from electra_tf.analysis import replaced_tokens
from electra_tf.model.networks import ElectraDiscriminator, ElectraGenerator
from electra_tf.model.tokenization import Vocabulary

VOCABULARY = Vocabulary(
    (*tiny.SPECIALS, *"abcdefgh", "##x", "##y", "long", "##long", "name")
)
TEXTS = ["a b c d e f g h", "name long", "ax by c", "", "h g f e d c b a a a"]
MODEL = dataclasses.replace(
    tiny.BERT, vocab_size=VOCABULARY.size, num_hidden_layers=1
)


@pytest.fixture(scope="module")
def discriminator():
    return ElectraDiscriminator(MODEL, VOCABULARY, seed=0)


@pytest.fixture(scope="module")
def generator():
    return ElectraGenerator(MODEL, VOCABULARY, seed=1)


def _replace(discriminator, generator, texts=TEXTS, **options):
    def detect(ids):
        return {"logits": discriminator({"input_ids": ids})["logits"].numpy()}

    networks = types.SimpleNamespace(
        vocabulary=VOCABULARY,
        tokenizer_options={},
        detect=detect,
        generator=generator,
    )
    options = {"max_seq_length": 16, "batch_size": 32, **options}
    scorer = types.SimpleNamespace(networks=networks, **options)
    return replaced_tokens.replace_tokens(scorer, texts, 0)


def test_the_discriminator_reads_the_samples(discriminator, generator):
    """By hand: mask, predict, sample by the same numbers, discriminate."""
    replaced = _replace(discriminator, generator, batch_size=2)
    for number, text in enumerate(TEXTS):
        ids = discriminator.read(tf.constant([text]))["input_ids"].numpy()[0]
        random = np.random.default_rng([0, number])
        size = len(ids) - 2
        k = min(size, max(1, round(0.15 * size)))
        chosen = random.choice(size, k, replace=False) if k else []
        places = 1 + np.sort(np.array(chosen, int))
        uniform = random.random(k)
        masked = ids.copy()
        masked[places] = VOCABULARY.mask_id
        logits = generator({"input_ids": masked[None]})["logits"][0].numpy()
        read, is_predicted = ids.copy(), np.zeros(len(ids), bool)
        for place, u in zip(places, uniform, strict=True):
            p = np.exp(logits[place].astype(np.float64))
            read[place] = np.searchsorted(np.cumsum(p / p.sum()), u)
            is_predicted[place] = logits[place].argmax() == ids[place]
        logits = discriminator({"input_ids": read[None]})["logits"][0]
        is_masked = np.isin(np.arange(len(ids)), places)
        expected = (logits, read != ids, is_masked, is_predicted)
        here = replaced.text == number
        for x, y in zip(replaced, expected, strict=False):
            np.testing.assert_allclose(x[here], y[1:-1], atol=1e-5)


def test_samples_follow_the_softmax():
    logits = np.log(np.array([0.1, 0.6, 0.3]))
    uniform = (np.arange(1000) + 0.5) / 1000
    samples = replaced_tokens.sample(np.tile(logits, (1000, 1)), uniform)
    assert np.bincount(samples).tolist() == [100, 600, 300]


def test_texts_that_are_too_long_are_cut(discriminator, generator):
    texts = ["a b c d e f g h"]
    replaced = _replace(discriminator, generator, texts, max_seq_length=6)
    assert len(replaced.logits) == 4
