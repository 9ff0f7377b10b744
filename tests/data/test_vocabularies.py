"""A vocabulary spells its corpus, and is checked when it is opened."""

import collections
import dataclasses
import itertools
import random

import multilingual
import pytest
from reference_tokenizer import word_pieces

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import demo_corpus
from electra_tf.data.vocabularies import (
    build_vocabulary,
    learn_vocabulary,
    open_vocabulary,
)
from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    BasicTokenizer,
    Vocabulary,
)
from electra_tf.util.errors import UserError

UNCASED = {"do_lower_case": True, "strip_accents": True}
CASED = {"do_lower_case": False, "strip_accents": False}


@pytest.fixture
def config(tmp_path):
    rng = random.Random(0)
    lines = [rng.choice(multilingual.SENTENCES) for _ in range(300)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(lines))
    return CorpusConfig(
        corpus=(str(tmp_path / "corpus.txt"),),
        vocab_size=450,
        max_seq_length=32,
    )


def build(config, path):
    return build_vocabulary(config, str(path))


@pytest.fixture(scope="module")
def lines():
    documents = itertools.islice(demo_corpus.documents(), 10, 60)
    return list(itertools.chain.from_iterable(documents))


@pytest.mark.parametrize("settings", [UNCASED, CASED], ids=["uncased", "cased"])
def test_larger_vocabularies_need_fewer_pieces(lines, settings):
    words = BasicTokenizer(**settings)
    counts = collections.Counter(w for x in lines for w in words.tokenize(x))
    num_pieces = []
    for vocab_size in (400, 1600):
        tokens = learn_vocabulary(lines, vocab_size=vocab_size, **settings)
        assert len(tokens) == len(set(tokens)) == vocab_size
        assert tuple(tokens[:5]) == SPECIAL_TOKENS
        assert ("The" in tokens) == (settings is CASED)
        vocabulary = Vocabulary(tuple(tokens))
        piece_counts = collections.Counter()
        for word, count in counts.items():
            for piece in word_pieces(word, vocabulary):
                piece_counts[piece] += count
        assert piece_counts["[UNK]"] < 1e-3 * piece_counts.total()
        assert piece_counts["the"] > 100
        num_pieces.append(piece_counts.total())
    assert num_pieces[1] < 0.8 * num_pieces[0]


def test_words_are_counted_as_the_tokenizer_splits_them():
    lines = ["Été, été!", "ETE\tete.", "a\x12b 中文"] * 9
    tokens = learn_vocabulary(lines, vocab_size=200, **UNCASED)
    assert {"ete", "ab", "中", "文", ",", "!", "."} < set(tokens)
    assert not {"été", "É", "é", "\x12", "##文"} & set(tokens)


def test_the_order_of_equally_frequent_words_does_not_matter():
    lines = [f"w{i} x{i}" for i in range(500)]
    settings = UNCASED | {"vocab_size": 100}
    tokens = learn_vocabulary(lines, **settings)
    assert tokens == learn_vocabulary(iter(lines[::-1]), **settings)


def test_rare_characters_are_kept_where_they_take_little_room():
    rare = "".join(chr(0x4E00 + i) for i in range(20))
    lines = ["ab ba " * 600_000, "@ @", "aœ"]
    large, small = (
        learn_vocabulary(lines, vocab_size=size, **UNCASED) for size in (50, 9)
    )
    assert large[5:10] == ["@", "a", "b", "##a", "##b"]
    assert small == [*SPECIAL_TOKENS, "a", "b", "##a", "##b"]
    assert "œ" not in large  # seen once
    tokens = learn_vocabulary([*lines, rare, rare], vocab_size=85, **UNCASED)
    assert len({*rare, "@"}.intersection(tokens)) == 4  # 5 % of 80


def test_a_sentencepiece_model_of_other_letter_case_is_refused(
    config, tmp_path
):
    config = dataclasses.replace(config, tokenizer="sentencepiece")
    cased = dataclasses.replace(config, do_lower_case=False)
    build(config, tmp_path / "uncased.model")
    build(cased, tmp_path / "cased.model")
    for other in (cased, dataclasses.replace(config, strip_accents=False)):
        with pytest.raises(UserError, match="strip_accents"):
            open_vocabulary(other, str(tmp_path / "uncased.model"))
    assert open_vocabulary(cased, str(tmp_path / "cased.model"))


def test_refusals(config, tmp_path):
    path = tmp_path / "vocab.txt"
    build(config, path)
    smaller = dataclasses.replace(config, vocab_size=300)
    for call in (
        lambda: build(config, path),
        lambda: open_vocabulary(smaller, str(path)),
        lambda: learn_vocabulary(["\x00 "], vocab_size=99, **UNCASED),
        lambda: learn_vocabulary(["ab ba"], vocab_size=8, **UNCASED),
    ):
        with pytest.raises(UserError):
            call()
