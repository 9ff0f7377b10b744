"""Tokens are replaced as in training, and scored by the networks."""

import dataclasses
import types

import numpy as np
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


def test_the_discriminator_reads_the_samples():
    """By hand: mask, predict, sample by the same numbers, discriminate."""
    discriminator = ElectraDiscriminator(
        MODEL, VOCABULARY, seed=0, max_seq_length=10
    )
    generator = ElectraGenerator(MODEL, VOCABULARY, seed=1)

    def detect(ids):
        return {"logits": discriminator({"input_ids": ids})["logits"].numpy()}

    networks = types.SimpleNamespace(
        vocabulary=VOCABULARY,
        tokenizer_options={},
        detect=detect,
        generator=generator,
    )
    scorer = types.SimpleNamespace(
        networks=networks, max_seq_length=10, batch_size=2
    )
    replaced = replaced_tokens.replace_tokens(scorer, TEXTS, 0)
    assert np.bincount(replaced.text).tolist() == [8, 2, 5, 0, 8]  # one is cut
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
