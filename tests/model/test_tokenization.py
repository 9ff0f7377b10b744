"""The reference tokenizer splits as the original; bad vocabularies fail."""

import dataclasses
import doctest
import hashlib
import json
import pathlib

import pytest

from electra_tf.model import tokenization
from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    BasicTokenizer,
    Vocabulary,
    WordpieceTokenizer,
)
from electra_tf.util.errors import UserError

TESTS = pathlib.Path(__file__).parents[1]
SAMPLE = json.loads((TESTS / "golden/tokenization_sample.json").read_text())
MODES = {"lower_strip": (True, True), "lower": (True, False)}
MODES["cased"] = (False, False)


def write(path, *lines):
    path.write_bytes(b"".join(line.encode() + b"\n" for line in lines))
    return str(path)


def test_the_docstring_examples_are_true():
    result = doctest.testmod(tokenization)
    assert result.attempted and not result.failed


@pytest.mark.parametrize("mode", MODES)
def test_basic_tokenizer_gives_the_originals_words(mode):
    tokenizer = BasicTokenizer(*MODES[mode])
    for row in SAMPLE["rows"]:
        assert tokenizer.tokenize(row["text"]) == row[mode], row["text"]


def test_accents_are_kept_unless_lower_casing():
    assert BasicTokenizer(False, True).tokenize("Café") == ["Café"]


def test_special_tokens_in_text_are_text():
    words = BasicTokenizer().tokenize("[MASK][SEP]")
    assert words == ["[", "mask", "]", "[", "sep", "]"]


def test_words_of_201_characters_are_unknown():
    tokenizer = WordpieceTokenizer({"é": 0, "##é": 1})
    assert tokenizer.tokenize("é" * 200) == ["é"] + ["##é"] * 199
    assert tokenizer.tokenize("é" * 201) == ["[UNK]"]


def test_a_word_with_an_unknown_piece_is_unknown():
    assert WordpieceTokenizer({"ab": 0}).tokenize("abc") == ["[UNK]"]


def test_ids_are_line_numbers_with_any_line_ending(tmp_path):
    path = write(tmp_path / "v", *SPECIAL_TOKENS, "a\r", " \u2028b")
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens == (*SPECIAL_TOKENS, "a", "b")
    assert vocabulary.size == 7
    assert vocabulary.ids["b"] == 6
    special = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
    assert [getattr(vocabulary, name) for name in special] == [0, 1, 2, 3, 4]


def test_the_hash_is_that_of_the_file(tmp_path):
    path = tmp_path / "v"
    vocabulary = Vocabulary.from_file(write(path, *SPECIAL_TOKENS, "é"))
    assert vocabulary.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes()[:-1])
    assert Vocabulary.from_file(str(path)).sha256 == vocabulary.sha256


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_tokens(tmp_path):
    path = tmp_path / "v"
    vocabulary = Vocabulary.from_file(write(path, *SPECIAL_TOKENS, "é"))
    path.write_text(path.read_text(), "utf-8-sig", newline="\r\n")
    assert Vocabulary.from_file(str(path)) == vocabulary


def test_a_vocabulary_is_a_value():
    vocabulary = Vocabulary(SPECIAL_TOKENS)
    assert vocabulary == Vocabulary(SPECIAL_TOKENS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        vocabulary.tokens = ()


@pytest.mark.parametrize(
    ("tokens", "problem"),
    [
        ((), r"0 tokens without \[PAD\] \[UNK\]"),
        (SPECIAL_TOKENS[:4], r"4 tokens without \[MASK\]"),
        (("a", *SPECIAL_TOKENS), "'a' in line 1"),
        ((*SPECIAL_TOKENS, "a", "b", "a"), "'a' in lines 6 and 8"),
        ((*SPECIAL_TOKENS, "", "b"), "nothing in line 6"),
        ((*SPECIAL_TOKENS, "a", "b\0c"), "a NUL character in line 7"),
        (
            (*SPECIAL_TOKENS, "##" + "\xe9" * 129),
            "a token of 258 bytes, more than 256, in line 6",
        ),
        (
            (*SPECIAL_TOKENS, "a", "x" * 3_000_000),
            "a token of 3,000,000 bytes, more than 256, in line 7",
        ),
    ],
)
def test_a_bad_vocabulary_is_refused_naming_the_line(tmp_path, tokens, problem):
    with pytest.raises(UserError, match=f"Received: {problem}"):
        Vocabulary(tokens)
    path = write(tmp_path / "v.txt", *tokens)
    with pytest.raises(UserError, match=rf"v\.txt: .*Received: {problem}"):
        Vocabulary.from_file(path)


def test_a_word_piece_may_have_256_bytes_and_a_piece_of_a_model_more():
    Vocabulary((*SPECIAL_TOKENS, "##" + "x" * 256))
    Vocabulary((*SPECIAL_TOKENS, "x" * 257), sentencepiece=b"model")


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path):
    path = tmp_path / "v.txt"
    with pytest.raises(UserError, match=r"v\.txt"):
        Vocabulary.from_file(str(path))
    path.write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(UserError, match=r"v\.txt: line 2 is not UTF-8"):
        Vocabulary.from_file(str(path))


def test_ids_are_places_in_the_vocabulary(tmp_path):
    words = (*SPECIAL_TOKENS, "the", "chef")
    path = write(tmp_path / "vocab.txt", *words)
    tokenizer = tokenization.FullTokenizer(path)
    ids = tokenizer.convert_tokens_to_ids(["chef", "[SEP]", "the"])
    assert ids == [words.index(word) for word in ("chef", "[SEP]", "the")]
