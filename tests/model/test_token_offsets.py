"""Spans of tokens cover the text they come from, and never overlap."""

import functools
import unicodedata

import hypothesis
import multilingual
import pytest
from hypothesis import strategies as st

from electra_tf.model.graph_tokenization import span_tokenizer
from electra_tf.model.tokenization import SPECIAL_TOKENS, Vocabulary

AWKWARD = (
    "abAÉé\u0301\u0308ñΣσςİŉﬁ한글ᄒ中豈$.’-[] \t\n\u2028\xa0\u200b\xad\0\ufffd"
    "😀ßΐ\U0001d157\U0001d165\U0001d15e"  # notes, whose stems are sorted
)
LETTERS = sorted(
    {
        part
        for character in AWKWARD
        for form in (character, character.lower())
        for part in unicodedata.normalize("NFD", form) + form
        if not part.isspace() and unicodedata.category(part)[0] != "C"
    }
)
VOCABULARY = Vocabulary(
    (
        *SPECIAL_TOKENS,
        *LETTERS,
        *(f"##{x}" for x in LETTERS if x != "ß"),  # so that some are unknown
        *("cafe", "##fe", "un", "##able"),
    )
)
MODES = [(True, True), (True, False), (False, True)]

fuzz = hypothesis.settings(
    max_examples=25, deadline=None, derandomize=True, database=None
)
texts = st.lists(st.text(AWKWARD, max_size=24), min_size=4, max_size=4)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    return multilingual.learn_vocabulary(tmp_path_factory.mktemp("model"))


_span_tokenizer = functools.cache(span_tokenizer)


def _check(drawn, vocabulary, mode):
    """Yields texts and their spans, which must be in order."""
    found = _span_tokenizer(vocabulary, *mode)(drawn)
    for text, spans in zip(drawn, found, strict=True):
        ends = [end for span in spans for end in span[1:]]
        assert ends == sorted(ends) and {*ends} <= {*range(len(text) + 1)}
        yield text, {i for span in spans for i in range(*span[1:])}


def _is_visible(character):
    return not (
        character.isspace()
        or character == "\ufffd"
        or unicodedata.category(character)[0] in "CM"
    )


@fuzz
@hypothesis.given(texts)
def test_word_pieces_cover_the_visible_text_in_order(drawn):
    for mode in MODES:
        for text, covered in _check(drawn, VOCABULARY, mode):
            visible = {i for i, x in enumerate(text) if _is_visible(x)}
            assert visible <= covered, text


@fuzz
@hypothesis.given(
    st.lists(st.text(AWKWARD + "hcCf料eat", max_size=20), min_size=4)
)
def test_pieces_of_sentencepiece_cover_the_letters_in_order(pieces, drawn):
    for text, covered in _check(drawn, pieces, (True, True)):
        letters = {i for i, x in enumerate(text) if x in "hcCfeat料abAÉéσ中"}
        assert letters <= covered, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Un\xadable, CAFÉ!", ["Un\xad", "able", ",", "CAFÉ", "!"]),
        ("cafe\u0301 cafe", ["cafe\u0301", "cafe"]),
        ("\u0301un", ["\u0301un"]),  # an accent before any letter
        ("\u0301 un", ["un"]),
        ("中豈un", ["中", "豈", "un"]),
        ("", []),
        (" \n\u200b", []),
        ("qqq cafe", ["qqq", "cafe"]),  # unknown as a whole
        ("[MASK]", ["[", "MASK", "]"]),
        ("x" * 201 + ". un", ["x" * 201 + ".", "", "un"]),  # too long
    ],
)
def test_tokens_cover_what_the_user_wrote(text, expected):
    (spans,) = _span_tokenizer(VOCABULARY)([text])
    assert [text[span.start : span.end] for span in spans] == expected
