"""The reference tokenizer splits as the original; bad vocabularies fail."""

import json
import pathlib

import pytest

from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    BasicTokenizer,
    Vocabulary,
)
from electra_tf.util.errors import UserError

TESTS = pathlib.Path(__file__).parents[1]
SAMPLE = json.loads((TESTS / "golden/tokenization_sample.json").read_text())
MODES = {"lower_strip": (True, True), "lower": (True, False)}
MODES["cased"] = (False, False)


def write(path, *lines):
    path.write_bytes(b"".join(line.encode() + b"\n" for line in lines))
    return str(path)


@pytest.mark.parametrize("mode", MODES)
def test_basic_tokenizer_gives_the_originals_words(mode):
    tokenizer = BasicTokenizer(*MODES[mode])
    for row in SAMPLE["rows"]:
        assert tokenizer.tokenize(row["text"]) == row[mode], row["text"]


def test_ids_are_line_numbers_with_any_line_ending(tmp_path):
    path = write(tmp_path / "v", *SPECIAL_TOKENS, "a\r", " \u2028b")
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens == (*SPECIAL_TOKENS, "a", "b")
    assert vocabulary.size == 7
    assert vocabulary.ids["b"] == 6
    special = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
    assert [getattr(vocabulary, name) for name in special] == [0, 1, 2, 3, 4]


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_tokens(tmp_path):
    path = tmp_path / "v"
    vocabulary = Vocabulary.from_file(write(path, *SPECIAL_TOKENS, "é"))
    path.write_text(path.read_text(), "utf-8-sig", newline="\r\n")
    assert Vocabulary.from_file(str(path)) == vocabulary


@pytest.mark.parametrize(
    "tokens",
    [
        SPECIAL_TOKENS[1:],
        SPECIAL_TOKENS[:4],
        (*SPECIAL_TOKENS, "a", "a"),
        (*SPECIAL_TOKENS, ""),
        (*SPECIAL_TOKENS, "x" * 257),
    ],
)
def test_what_is_no_vocabulary_is_refused(tokens):
    with pytest.raises(UserError):
        Vocabulary(tuple(tokens))
