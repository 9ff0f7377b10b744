import multilingual
import numpy as np
import pytest
import tensorflow as tf
import tiny_finetuning as tiny

from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import token_borders as borders_module
from electra_tf.finetune.qa.qa_files import Context
from electra_tf.finetune.qa.token_borders import token_borders, tokens_of_words

WORDS = Context(" ".join(multilingual.SENTENCES + multilingual.AWKWARD)).words


@pytest.fixture(scope="module", params=["word pieces", "sentence pieces"])
def tokenizer(request, tmp_path_factory):
    if request.param == "word pieces":
        return TextTokenizer(tiny.VOCABULARY)
    directory = tmp_path_factory.mktemp("model")
    return TextTokenizer(multilingual.learn_vocabulary(directory))


def _parts(tokenizer, word):
    """Returns the part of a word that each of its tokens was made of."""
    tokens = tokens_of_words([word], tokenizer.in_graph)[word]
    borders = zip(tokens.starts, tokens.ends, strict=True)
    return [word.encode()[start:end].decode() for start, end in borders]


def test_borders_of_tokens_are_in_order(tokenizer):
    found = tokens_of_words(WORDS, tokenizer.in_graph)
    for word, ids in zip(WORDS, tokenizer.tokenize(WORDS), strict=True):
        tokens = found[word]
        assert len(tokens.starts) == len(tokens.ends) == len(ids), word
        for places in (tokens.starts, tokens.ends):
            assert (np.diff(places) >= 0).all(), word
            assert ((places >= 0) & (places <= len(word.encode()))).all()


def test_tokens_have_the_marks_that_are_dropped_behind_them(tokenizer):
    parts = _parts(tokenizer, "film\u0301,")
    assert parts[-1] == "," and "".join(parts[:-1]).endswith("m\u0301")


def test_tokens_that_share_a_character_all_have_it(tmp_path):
    tokenizer = TextTokenizer(multilingual.learn_vocabulary(tmp_path))
    assert _parts(tokenizer, "\u65e5\u2026")[-3:] == ["\u2026"] * 3
    assert _parts(tokenizer, "(\ufb01")[-2:] == ["\ufb01"] * 2


def test_white_space_within_a_word_is_not_of_the_tokens_around_it(tmp_path):
    tokenizer = TextTokenizer(multilingual.learn_vocabulary(tmp_path))
    word = "\u65e5\u3000\u65e5"
    tokens = tokens_of_words([word], tokenizer.in_graph)[word]
    assert (tokens.starts[-1], tokens.ends[-1]) == (6, 9)
    assert (tokens.starts[-2], tokens.ends[-2]) == (6, 3)  # of the space
    assert (tokens.starts[-3], tokens.ends[-3]) == (0, 3)


def test_tokens_of_a_word_with_invalid_bytes_have_all_of_it(tokenizer):
    words = tf.constant([b"film\xff", b"film"])
    if tokenizer.vocabulary.sentencepiece:
        starts, ends = token_borders(words, tokenizer.in_graph)
        assert {*starts[0].numpy()} == {0} and {*ends[0].numpy()} == {5}
        assert ends[1].numpy()[-1] == 4


def test_there_may_be_no_words(tokenizer):
    assert tokens_of_words([], tokenizer.in_graph) == {}
    assert len(tokens_of_words([""], tokenizer.in_graph)[""].starts) == 0


def test_words_do_not_depend_on_their_batch(tokenizer, monkeypatch):
    whole = tokens_of_words(WORDS, tokenizer.in_graph)
    monkeypatch.setattr(borders_module, "_CHARACTERS_AT_ONCE", 100)
    for word, tokens in tokens_of_words(WORDS, tokenizer.in_graph).items():
        for one, other in zip(tokens, whole[word], strict=True):
            np.testing.assert_array_equal(one, other)
