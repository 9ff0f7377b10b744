import multilingual
import numpy as np
import pytest
import tiny_finetuning as tiny

from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa.qa_files import Context
from electra_tf.finetune.qa.token_borders import tokens_of_words

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
