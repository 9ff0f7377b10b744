"""Resized weights keep known words, positions and the lowest layers."""

import dataclasses

import numpy as np
import pytest
import tiny
from golden_weights import check, disentangled, read

from electra_tf.checkpoint import resizing, weights
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

WORDS = Vocabulary((*tiny.SPECIALS, *(f"w{i}" for i in range(507))))


def test_differences_of_new_words_are_the_mean_difference():
    original = disentangled()
    resized, _ = resizing.resize_vocabulary(original, 600)
    resized, _ = resizing.resize_positions(resized, 100)
    check(resized)
    name = "electra/embeddings/word_embeddings_difference"
    old, new = original.arrays[name], resized.arrays[name]
    np.testing.assert_array_equal(new[:512], old)
    np.testing.assert_allclose(new[512:] - old.mean(0), 0, atol=1e-6)
    assert not resized.arrays[f"{name}/adam_m"][512:].any()


def test_known_words_keep_rows_and_slots():
    original = read("small_like", vocabulary=WORDS)
    arrays = dict(original.arrays)
    table = "electra/embeddings/word_embeddings"
    arrays[f"{table}/adam_v"] = np.arange(512 * 16.0).reshape(512, 16)
    original = dataclasses.replace(original, arrays=arrays)
    new = Vocabulary((*tiny.SPECIALS, "new", "w7", "w2", "newer"))
    resized, rows = resizing.resize_vocabulary(original, 12, new)
    check(resized)
    assert rows == (7, 5, 505)
    assert resized.vocabulary == new
    rows = [0, 1, 2, 3, 4, 12, 7]
    kept = [0, 1, 2, 3, 4, 6, 7]
    bias = "generator_predictions/output_bias"
    for name in (table, f"{table}/adam_v", bias):
        np.testing.assert_array_equal(
            resized.arrays[name][kept], arrays[name][rows]
        )
        assert resized.arrays[name].dtype == arrays[name].dtype
    new_rows = [5, 8, 9, 10, 11]
    assert not resized.arrays[f"{table}/adam_v"][new_rows].any()
    np.testing.assert_allclose(
        resized.arrays[bias][new_rows], arrays[bias].mean()
    )
    noise = resized.arrays[table][new_rows] - arrays[table].mean(0)
    assert 0.01 < noise.std() < 0.03
    assert np.abs(noise).max() <= 0.04 + 1e-6


def test_words_keep_their_ids_without_a_vocabulary():
    resized, rows = resizing.resize_vocabulary(read("bert_mlm"), 600)
    check(resized)
    assert rows == (512, 88, 0)
    assert resized.vocabulary is None
    known = dataclasses.replace(resized, vocabulary=WORDS)
    resized, rows = resizing.resize_vocabulary(known, 100)
    assert rows == (100, 0, 500)
    assert resized.vocabulary.tokens == WORDS.tokens[:100]
    name = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(
        resized.arrays[name], read("bert_mlm").arrays[name][:100]
    )


def test_the_same_seed_gives_the_same_rows():
    one, two, other = (
        resizing.resize_vocabulary(read("bert_mlm"), 600, seed=seed)[0]
        for seed in (1, 1, 2)
    )
    name = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(one.arrays[name], two.arrays[name])
    assert (one.arrays[name] != other.arrays[name]).any()


def test_too_few_rows_for_the_words_are_refused():
    with pytest.raises(UserError, match="at least 60.*vocab_size=50"):
        resizing.resize_vocabulary(read("bert_mlm"), 50, tiny.VOCABULARY)


def test_pieces_of_a_sentencepiece_model_are_not_truncated():
    original = read("bert_mlm")
    size = original.arrays["electra/embeddings/word_embeddings"].shape[0]
    vocabulary = dataclasses.replace(tiny.VOCABULARY, sentencepiece=b"model")
    assert tiny.VOCABULARY.size == 60 <= size
    with pytest.raises(UserError, match="60, the pieces.*vocab_size=50"):
        resizing.resize_vocabulary(
            dataclasses.replace(original, vocabulary=vocabulary), 50
        )


def test_new_positions_repeat_the_old():
    original = read("untied_emb")
    resized, rows = resizing.resize_positions(original, 700)
    check(resized)
    assert rows == (512, 188, 0)
    for scope in ("electra", "generator"):
        name = f"{scope}/embeddings/position_embeddings"
        table = resized.arrays[name]
        np.testing.assert_array_equal(table[:512], original.arrays[name])
        np.testing.assert_array_equal(table[512:], original.arrays[name][:188])
        assert not resized.arrays[f"{name}/adam_m"][512:].any()


def test_the_lowest_layers_keep_weights_and_slots():
    original = weights.select(read("untied_emb"), weights.ENCODER)
    number = original.architecture.encoder.num_hidden_layers
    kept = resizing.keep_layers(original, number - 1)
    check(kept)
    assert kept.architecture.encoder.num_hidden_layers == number - 1
    top = f"electra/encoder/layer_{number - 1}/"
    names = {name for name in original.arrays if not name.startswith(top)}
    assert kept.arrays.keys() == names < original.arrays.keys()
    assert all(kept.arrays[x] is original.arrays[x] for x in names)


def test_more_layers_than_there_are_are_refused():
    original = weights.select(read("untied_emb"), weights.ENCODER)
    number = original.architecture.encoder.num_hidden_layers
    with pytest.raises(UserError, match=f"at most {number}.*{number + 1}"):
        resizing.keep_layers(original, number + 1)
