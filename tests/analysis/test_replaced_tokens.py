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


@pytest.fixture(scope="module")
def replaced(discriminator, generator):
    return _replace(discriminator, generator, batch_size=2)


def _ids(discriminator, text):
    return discriminator.read(tf.constant([text]))["input_ids"].numpy()[0]


def test_the_discriminator_reads_the_samples(
    discriminator, generator, replaced
):
    """By hand: mask, predict, sample by the same numbers, discriminate."""
    for number, text in enumerate(TEXTS):
        ids = _ids(discriminator, text)
        random = np.random.default_rng([0, number])
        size = len(ids) - 2
        k = min(size, max(1, round(0.15 * size)))
        chosen = random.choice(size, k, replace=False) if k else []
        places = 1 + np.sort(np.array(chosen, int))
        uniform = random.random(k)
        masked = ids.copy()
        masked[places] = VOCABULARY.mask_id
        logits = generator({"input_ids": masked[None]})["logits"][0].numpy()
        read = ids.copy()
        for place, u in zip(places, uniform, strict=True):
            p = np.exp(logits[place].astype(np.float64))
            read[place] = np.searchsorted(np.cumsum(p / p.sum()), u)
            was_right = logits[place].argmax() == ids[place]
            assert replaced[number].is_predicted[place - 1] == was_right
        expected = discriminator({"input_ids": read[None]})["logits"][0]
        np.testing.assert_array_equal(
            replaced[number].is_replaced, (read != ids)[1:-1]
        )
        np.testing.assert_allclose(
            replaced[number].logits, expected[1:-1], atol=1e-5
        )


def test_batches_change_nothing(discriminator, generator, replaced):
    again = _replace(discriminator, generator, batch_size=5)
    for one, other in zip(replaced, again, strict=True):
        np.testing.assert_allclose(one.logits, other.logits, atol=1e-5)
        np.testing.assert_array_equal(one.is_replaced, other.is_replaced)


def test_samples_follow_the_softmax():
    logits = np.log(np.array([0.1, 0.6, 0.3]))
    uniform = (np.arange(1000) + 0.5) / 1000
    found = replaced_tokens.sample(np.tile(logits, (1000, 1)), uniform)
    assert np.bincount(found).tolist() == [100, 600, 300]


def test_without_a_generator_random_tokens_look_like_the_replaced(
    discriminator,
):
    similar = replaced_tokens.similar_tokens(VOCABULARY)
    for token, names in (
        ("a", "abcdefgh"),
        ("##x", ("##x", "##y")),
        ("long", ("long", "name")),
        ("##long", ("##long",)),
    ):
        found = similar[VOCABULARY.ids[token]]
        assert {VOCABULARY.tokens[i] for i in found} == {*names}
    found = _replace(discriminator, None)
    assert sum(text.is_replaced.sum() for text in found) > 0
    assert not any(text.is_predicted.any() for text in found)


def test_texts_that_are_too_long_are_cut(discriminator):
    texts = ["a b c d e f g h"]
    (found,) = _replace(discriminator, None, texts, max_seq_length=6)
    assert len(found.logits) == 4
