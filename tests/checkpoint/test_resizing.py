"""Tables of other numbers of rows keep what they can."""

import dataclasses

import numpy as np
import pytest
import tiny
from golden_weights import check, disentangled, read

from electra_tf.checkpoint import resizing
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError


def test_differences_of_new_words_are_the_mean_difference():
    both = disentangled()
    made, _ = resizing.resize_vocabulary(both, 600)
    made, _ = resizing.resize_positions(made, 100)
    check(made)
    name = "electra/embeddings/word_embeddings_difference"
    old, new = both.arrays[name], made.arrays[name]
    np.testing.assert_array_equal(new[:512], old)
    np.testing.assert_allclose(new[512:] - old.mean(0), 0, atol=1e-6)
    assert not made.arrays[f"{name}/adam_m"][512:].any()


def test_known_words_keep_rows_and_slots():
    old = Vocabulary((*tiny.SPECIALS, *(f"w{i}" for i in range(507))))
    both = read("small_like", vocabulary=old)
    arrays = dict(both.arrays)
    table = "electra/embeddings/word_embeddings"
    arrays[f"{table}/adam_v"] = np.arange(512 * 16.0).reshape(512, 16)
    both = dataclasses.replace(both, arrays=arrays)
    new = Vocabulary((*tiny.SPECIALS, "new", "w7", "w2", "newer"))
    made, rows = resizing.resize_vocabulary(both, 12, new)
    check(made)
    assert rows == (7, 5, 505)
    assert made.vocabulary == new
    rows = [0, 1, 2, 3, 4, 12, 7]
    kept = [0, 1, 2, 3, 4, 6, 7]
    bias = "generator_predictions/output_bias"
    for name in (table, f"{table}/adam_v", bias):
        np.testing.assert_array_equal(
            made.arrays[name][kept], arrays[name][rows]
        )
        assert made.arrays[name].dtype == arrays[name].dtype
    fresh = [5, 8, 9, 10, 11]
    assert not made.arrays[f"{table}/adam_v"][fresh].any()
    np.testing.assert_allclose(made.arrays[bias][fresh], arrays[bias].mean())
    noise = made.arrays[table][fresh] - arrays[table].mean(0)
    assert 0.01 < noise.std() < 0.03
    assert np.abs(noise).max() <= 0.04 + 1e-6


def test_unknown_words_keep_their_numbers():
    made, rows = resizing.resize_vocabulary(read("bert_mlm"), 600)
    check(made)
    assert rows == (512, 88, 0)
    made, rows = resizing.resize_vocabulary(made, 100)
    assert rows == (100, 0, 500)
    name = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(
        made.arrays[name], read("bert_mlm").arrays[name][:100]
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


def test_pieces_of_a_model_are_not_cut():
    both = read("bert_mlm")
    size = both.arrays["electra/embeddings/word_embeddings"].shape[0]
    vocabulary = dataclasses.replace(tiny.VOCABULARY, sentencepiece=b"model")
    assert tiny.VOCABULARY.size == 60 <= size
    with pytest.raises(UserError, match="60, the pieces.*vocab_size=50"):
        resizing.resize_vocabulary(
            dataclasses.replace(both, vocabulary=vocabulary), 50
        )


def test_new_positions_repeat_the_old():
    both = read("untied_emb")
    made, rows = resizing.resize_positions(both, 700)
    check(made)
    assert rows == (512, 188, 0)
    for scope in ("electra", "generator"):
        name = f"{scope}/embeddings/position_embeddings"
        table = made.arrays[name]
        np.testing.assert_array_equal(table[:512], both.arrays[name])
        np.testing.assert_array_equal(table[512:], both.arrays[name][:188])
        assert not made.arrays[f"{name}/adam_m"][512:].any()
