"""States of words: those of the first pieces, for any batch and network."""

import analysis_configs
import numpy as np
import pytest
import tiny_networks

from electra_tf.analysis.representations import hidden_states
from electra_tf.analysis.representations.hidden_states import LayerReader
from electra_tf.util.errors import UserError

SENTENCES = [
    ["the", "films", "is", "good"],
    ["badly"],
    ["it", "was", "a", "very", "very", "bads", "plot", "."],
]
STARTS = [[1, 2, 4, 5], [1], [1, 2, 3, 4, 5, 6, 8, 9]]


@pytest.fixture(scope="module")
def network():
    return tiny_networks.discriminator(dtype="float32", max_seq_length=12)


@pytest.fixture(scope="module")
def short():
    return tiny_networks.generator(dtype="float32", max_seq_length=8)


def read(networks, sentences=SENTENCES, **options):
    options = {"batch_size": 2, "group_size": 8, **options}
    readers = [LayerReader(network) for network in networks]
    return list(hidden_states.read(readers, sentences, **options))


def by_hand(network, sentence, starts):
    """Computes the states of one sentence alone, without padding."""
    ids = network.read([" ".join(sentence)])
    output = network.encoder(
        ids["input_ids"], ids["input_mask"], ids["segment_ids"]
    )
    layers = [output.embedding_output, *output.all_layers]
    return np.stack([layer.numpy()[0, starts] for layer in layers])


def test_a_state_is_that_of_the_first_piece(network):
    (found,) = read([network])
    assert found.states[0].shape == (3, 13, 16)
    expected = [
        by_hand(network, *x) for x in zip(SENTENCES, STARTS, strict=True)
    ]
    np.testing.assert_allclose(
        found.states[0], np.concatenate(expected, 1), atol=1e-5
    )
    assert found.sentences.tolist() == [0] * 4 + [1] + [2] * 8
    assert found.words.tolist() == [0, 1, 2, 3, 0, *range(8)]


def test_batches_and_groups_change_nothing(network):
    (whole,) = read([network])
    parts = read([network], batch_size=1, group_size=2)
    assert len(parts) == 2
    joined = np.concatenate([part.states[0] for part in parts], 1)
    np.testing.assert_allclose(joined, whole.states[0], atol=1e-5)
    numbers = np.concatenate([part.sentences for part in parts])
    np.testing.assert_array_equal(numbers, whole.sentences)


def test_two_networks_give_states_of_words_that_fit_in_both(network, short):
    (found,) = read([network, short])
    # Of the last sentence 6 tokens fit: [CLS] it was a very very bad [SEP].
    # "bads" is left out, as its piece "##s" does not fit.
    assert found.words.tolist() == [0, 1, 2, 3, 0, *range(5)]
    assert {x.shape[:2] for x in found.states} == {(3, 10)}
    expected = by_hand(short, SENTENCES[2][:5], STARTS[2][:5])
    np.testing.assert_allclose(found.states[1][:, 5:], expected, atol=1e-5)


def test_an_empty_word_is_unknown_and_one_too_long_is_left_out(short):
    (found,) = read([short], [["\u200b"], ["good" + "s" * 9]])
    assert found.sentences.tolist() == [0]
    expected = by_hand(short, ["xyz"], [1])
    np.testing.assert_allclose(found.states[0], expected, atol=1e-5)


def test_a_twin_keeps_its_vocabulary(tmp_path):
    model = tiny_networks.save(tiny_networks.discriminator(), tmp_path / "m")
    twin = tiny_networks.generator(tiny_networks.PERMUTED)
    config = analysis_configs.config(
        what="representations",
        model=model,
        twin=tiny_networks.save(twin, tmp_path / "t"),
        vocab_file=f"{model}/vocab.txt",
    )
    found = hidden_states.load(config).values()
    assert [network.reader.vocabulary for network in found] == [
        tiny_networks.VOCABULARY,
        tiny_networks.PERMUTED,
    ]


def test_all_versions_of_a_sentence_must_fit_in_every_row(network, short):
    """A row of `short` holds [CLS], 6 pieces and [SEP]; `films` has two."""
    versions = [
        [["films", *["the"] * n] for n in lengths]
        for lengths in ((9, 1), (4, 3), (4, 5), (8, 8))
    ]
    readers = [LayerReader(network), LayerReader(short)]
    assert hidden_states.fitting(readers, versions).tolist() == [1]
    of_one = hidden_states.fitting(readers[:1], versions)
    assert of_one.tolist() == [1, 2, 3]
    with pytest.raises(UserError, match="none of 1 fits.*--max_seq_length"):
        hidden_states.fitting(readers, versions[:1])
