"""A learned vocabulary spells its corpus and has the requested size."""

import collections
import itertools
import random
import string

import pytest

from electra_tf.data import demo_corpus, vocabulary_learner
from electra_tf.data.vocabulary_learner import learn_vocabulary
from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    BasicTokenizer,
    Vocabulary,
    WordpieceTokenizer,
)
from electra_tf.util.errors import UserError

UNCASED = {"do_lower_case": True, "strip_accents": True}
CASED = {"do_lower_case": False, "strip_accents": False}


@pytest.fixture(scope="module")
def lines():
    documents = itertools.islice(demo_corpus.documents(), 10, 60)
    return list(itertools.chain.from_iterable(documents))


def spell(tokens, lines, do_lower_case=True, strip_accents=True):
    words = BasicTokenizer(do_lower_case, strip_accents)
    pieces = WordpieceTokenizer(Vocabulary(tuple(tokens)).ids)
    counts = collections.Counter(
        w for line in lines for w in words.tokenize(line)
    )
    piece_counts = collections.Counter()
    for word, count in counts.items():
        for piece in pieces.tokenize(word):
            piece_counts[piece] += count
    return piece_counts


@pytest.mark.parametrize("settings", [UNCASED, CASED], ids=["uncased", "cased"])
def test_the_size_is_met_and_larger_vocabularies_need_fewer_pieces(
    lines, settings
):
    num_pieces = []
    for vocab_size in (400, 1600):
        tokens = learn_vocabulary(lines, vocab_size=vocab_size, **settings)
        assert len(tokens) == len(set(tokens)) == vocab_size
        assert tuple(tokens[:5]) == SPECIAL_TOKENS
        piece_counts = spell(tokens, lines, **settings)
        assert piece_counts["[UNK]"] < 1e-3 * piece_counts.total()
        assert piece_counts["the"] > 100
        assert ("The" in tokens) == (settings is CASED)
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


def test_counting_forgets_rare_words_to_bound_its_memory(monkeypatch):
    monkeypatch.setattr(vocabulary_learner, "MAX_DISTINCT_WORDS", 100)
    lines = (f"frequent w{i}" for i in range(5000))
    tokens = learn_vocabulary(lines, vocab_size=300, **UNCASED)
    assert "frequent" in tokens
    assert len(tokens) < 300


@pytest.mark.parametrize("limit", ["DISTINCT_WORDS", "PIECE_CHARACTERS"])
def test_a_bounded_memory_forgets_no_line_of_text_without_spaces(
    monkeypatch, limit
):
    characters = [chr(0x4E00 + i) for i in range(30)]
    lines = ["".join(x) for x in itertools.combinations(characters, 3)]
    tokens = learn_vocabulary(lines, vocab_size=100, **UNCASED)
    monkeypatch.setattr(vocabulary_learner, f"MAX_{limit}", 1000)
    assert tokens == learn_vocabulary(lines, vocab_size=100, **UNCASED)
    assert {*characters} < {*tokens}


@pytest.mark.parametrize("lines", [[], ["", " \t", "\x00"]])
def test_a_corpus_without_words_is_refused(lines):
    with pytest.raises(UserError, match="must have words"):
        learn_vocabulary(lines, vocab_size=100, **UNCASED)


def test_a_size_without_room_for_a_word_is_refused():
    with pytest.raises(UserError, match="vocab_size=8.*Set a larger"):
        learn_vocabulary(["ab ba"], vocab_size=8, **UNCASED)
    learn_vocabulary(["ab ba"], vocab_size=9, **UNCASED)


def test_the_rarest_characters_are_left_out_to_meet_the_size_and_logged():
    characters = [chr(0x4E00 + i) for i in range(300)]
    lines = [c * (301 - i) for i, c in enumerate(characters)]
    log_lines = []
    tokens = learn_vocabulary(
        lines, vocab_size=100, log=log_lines.append, **UNCASED
    )
    assert set(tokens[5:]) == set(characters[:95])
    share = sum(range(2, 207)) / sum(range(2, 302))
    assert log_lines == [
        f"Left out: 205 rare characters; {share:.3%} of the words become [UNK]."
    ]


def test_characters_come_first_and_rare_ones_where_they_take_little_room():
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


def test_the_alphabet_does_not_choose_among_equally_frequent_words():
    rng = random.Random(0)
    letters = string.ascii_lowercase
    words = {"".join(rng.choices(letters, k=9)) for _ in range(520)}
    tokens = learn_vocabulary([" ".join(words)] * 5, vocab_size=317, **UNCASED)
    chosen = words.intersection(tokens)
    assert len(tokens) == 317 and len(chosen) > 200
    num_early = sum(word < "n" for word in chosen)
    assert 0.4 < num_early / len(chosen) < 0.6


def test_words_seen_once_become_no_pieces():
    lines = ["apple pear"] * 5 + ["quincunx apple"]
    tokens = learn_vocabulary(lines, vocab_size=99, **UNCASED)
    assert {"apple", "pear", "q", "##x"} < set(tokens)
    alphabet = {*"aplerquincx", *(f"##{c}" for c in "aplerquincx")}
    pieces = [t for t in tokens[5:] if t not in alphabet]
    assert sorted(pieces) == ["apple", "pear"]
