"""The graph tokenizer gives the reference's ids for any text.

Spans of its tokens cover the text they come from, and never overlap.
"""

import functools
import itertools
import json
import unicodedata

import golden_arrays
import hypothesis
import multilingual
import numpy as np
import pytest
import reference_tokenizer
import tensorflow as tf
import tiny
from hypothesis import strategies as st

from electra_tf.model.graph_tokenization import (
    GraphTokenizer,
    pack_rows,
    span_tokenizer,
)
from electra_tf.model.tokenization import (
    SPECIAL_TOKENS,
    BasicTokenizer,
    Vocabulary,
)
from electra_tf.util.errors import ElectraWarning

SAMPLE = json.loads(
    (golden_arrays.HERE / "golden/tokenization_sample.json").read_text()
)
MODES = [(True, True), (True, False), (False, True), (False, False)]

# Characters on which the Unicode of TensorFlow and of Python differ.
LOWER_CASED_SINCE_14 = [0x2C2F, 0xA7C0, 0xA7D0, 0xA7D6, 0xA7D8] + [
    code
    for code in range(0x10570, 0x10596)
    if code not in (0x1057B, 0x1058B, 0x10593)
]
ASSIGNED_IN_15_1 = [0x31EF, *range(0x2FFC, 0x3000), *range(0x2EBF0, 0x2EE5E)]
DIFFERENT = frozenset(map(chr, LOWER_CASED_SINCE_14 + ASSIGNED_IN_15_1))

VOCABULARIES = golden_arrays.VOCAB_FILE.parent
TEXTS = [
    row["text"] for row in SAMPLE["rows"] if not DIFFERENT & set(row["text"])
]

fuzz = hypothesis.settings(
    max_examples=25, deadline=None, derandomize=True, database=None
)


def vocabulary_of(words):
    """Returns a vocabulary that spells words character by character."""
    characters = sorted(set("".join(words)))
    suffixes = [f"##{character}" for character in characters]
    tokens = [*SPECIAL_TOKENS, *characters, *suffixes, *sorted(words)]
    return Vocabulary(tuple(dict.fromkeys(tokens)))


VOCABULARY = vocabulary_of(
    {
        word
        for row in SAMPLE["rows"]
        for mode in ("lower_strip", "lower", "cased")
        for word in row[mode]
    }
)


graph_tokenizer = functools.cache(GraphTokenizer)


def check(texts, *, vocabulary=VOCABULARY, modes=MODES, encoded=None):
    """Compares graph and reference on texts; `encoded` are their bytes."""
    encoded = encoded or [text.encode() for text in texts]
    for mode in modes:
        tokenizer = graph_tokenizer(vocabulary, *mode)
        found = tokenizer.tokenize(tf.constant(encoded, tf.string)).to_list()
        for text, ids in zip(texts, found, strict=True):
            expected = reference_tokenizer.tokenize(text, vocabulary, *mode)
            assert ids == expected, (text, mode)


def is_common(character):
    """Returns whether TensorFlow and Python classify a character alike."""
    category = unicodedata.category(character)
    return category not in ("Cn", "Cs") and character not in DIFFERENT


def test_ids_on_awkward_strings():
    check(TEXTS)


@pytest.mark.skipif(not VOCABULARIES.exists(), reason="needs BERT's words")
@pytest.mark.parametrize("name", ["uncased", "cased"])
def test_ids_of_real_vocabularies(name):
    path = VOCABULARIES / f"bert-base-{name}-vocab.txt"
    check(TEXTS, vocabulary=Vocabulary.from_file(str(path)))


@pytest.mark.parametrize("mode", MODES)
def test_words_are_the_originals(mode):
    name = {(True, True): "lower_strip", (True, False): "lower"}.get(mode)
    tokenizer = BasicTokenizer(*mode)
    for row in SAMPLE["rows"]:
        words = row[name or "cased"]
        assert tokenizer.tokenize(row["text"]) == words, row["text"]


@fuzz
@hypothesis.given(st.data())
def test_ids_on_any_text(data):
    character = st.one_of(
        st.characters().filter(is_common),
        st.sampled_from("abIΣσİ\u0345é\u0301中.$ \t\r\n\0\u2028\ufffd\ue000"),
    )
    check(data.draw(st.lists(st.text(character), min_size=16, max_size=16)))


@fuzz
@hypothesis.given(
    st.lists(
        st.lists(
            st.binary(max_size=3)
            | st.sampled_from("aé中\U0001f600.".encode().split())
        ).map(b"".join),
        min_size=16,
        max_size=16,
    )
)
def test_bytes_that_are_not_utf8_are_left_out(encoded):
    texts = [x.decode("utf-8", "ignore") for x in encoded]
    hypothesis.assume(all(map(is_common, "".join(texts))))
    check(texts, encoded=encoded)


def test_every_character_is_kept_dropped_or_splits_as_in_the_reference():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "a", "b", "##b", "ab"))
    codes = itertools.chain(range(0xE000), range(0xF000, 0x20000))
    texts = [f"a{chr(code)}b" for code in codes if is_common(chr(code))]
    check(texts, vocabulary=vocabulary, modes=[(True, True)])


@pytest.mark.parametrize("character", "xéя\U00010400\u1100")
@pytest.mark.parametrize("size", [200, 201])
def test_words_of_201_characters_are_unknown(character, size):
    word = character * size
    texts = [word, f"{word}.{word}中{word}", f"\u3000{word} x", "e\u0301" * 150]
    vocabulary = vocabulary_of({character, character.lower(), "e\u0301.中"})
    check(texts, vocabulary=vocabulary)


@pytest.mark.parametrize("mode", MODES[::3])
def test_offsets_are_of_the_bytes_that_became_a_token(mode):
    tokenizer = GraphTokenizer(VOCABULARY, *mode)
    pieces = tokenizer.tokenize_with_offsets(tf.constant(TEXTS))
    assert pieces.ids.to_list() == tokenizer.tokenize(TEXTS).to_list()
    basic, are_exact = BasicTokenizer(*mode), []
    rows = zip(*map(tf.RaggedTensor.to_list, pieces), strict=True)
    for text, columns in zip(TEXTS, rows, strict=True):
        for i, start, end in zip(*columns, strict=True):
            if i == VOCABULARY.unk_id:
                continue
            found = text.encode()[start:end].decode()
            normal = "".join(basic.tokenize(found))
            assert VOCABULARY.surface(i) in normal
            are_exact.append(normal == VOCABULARY.surface(i))
    # Else one character became several tokens.
    assert len(are_exact) > 100 and np.mean(are_exact) > 0.95


def _packed(texts, size):
    """Returns the columns of a row; the longer of two texts is truncated."""
    texts = [list(text) for text in texts]
    while sum(map(len, texts)) > size - 1 - len(texts):
        longest = max(map(len, texts))
        next(t for t in reversed(texts) if len(t) == longest).pop()
    ids, segments = [2], [0]
    for number, text in enumerate(texts):
        ids += [*text, 3]
        segments += [number] * (len(text) + 1)
    padding = [0] * (size - len(ids))
    columns = ids, [1] * len(ids), segments
    return [column + padding for column in columns]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("length", [8, 11, 12])
def test_pack_rows_truncates_the_longer_of_two_texts(length, count):
    random = np.random.default_rng(0)
    texts = [
        [random.integers(5, 99, n).tolist() for n in random.integers(0, 14, 60)]
        for _ in range(count)
    ]
    ragged = [tf.ragged.constant(x, tf.int32) for x in texts] + [None]
    options = *ragged[:2], tiny.VOCABULARY, length
    found = pack_rows(*options)
    rows = [_packed(row, length) for row in zip(*texts, strict=True)]
    for column, expected in zip(
        found.values(), zip(*rows, strict=True), strict=True
    ):
        assert column.dtype == tf.int32
        np.testing.assert_array_equal(column, expected)
    longest = found["input_mask"].numpy().sum(1).max()
    for name, column in pack_rows(*options, is_padded=False).items():
        np.testing.assert_array_equal(column, found[name][:, :longest])


def test_a_chinese_vocabulary_has_separators_and_duplicates(tmp_path):
    """As released ones of 21,128 lines: any text is an entry."""
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 7322)]
    tokens = [*SPECIAL_TOKENS, *"ab\u2028\u3000\u2029 ，Ａ", "", "##", "中"]
    tokens += [*characters, *(f"##{x}" for x in characters)]
    tokens += [f"[unused{i}]" for i in range(21_128 - len(tokens) - 3)]
    tokens += ["##b", "中", "a"]  # the last ids of duplicates count
    path = tmp_path / "vocab.txt"
    path.write_bytes("".join(f"{x}\r\n" for x in tokens).encode())
    with pytest.warns(ElectraWarning, match=" 3 tokens"):
        vocabulary = Vocabulary.from_file(str(path))
    assert vocabulary.tokens == tuple(tokens)
    path.write_bytes(vocabulary.content)
    with pytest.warns(ElectraWarning):
        assert Vocabulary.from_file(str(path)) == vocabulary
    text = "ab\u2028a\u3000中文\u2029，Ａ  ##b"
    ids = [21_127, 21_125, 21_127, 21_126, tokens.index("文"), 11, 12, 1, 1, 6]
    assert reference_tokenizer.tokenize(text, vocabulary, False) == ids
    tokenizer = GraphTokenizer(vocabulary, do_lower_case=False)
    assert tokenizer.tokenize(tf.constant([text])).to_list() == [ids]


@pytest.mark.parametrize(
    ("do_lower_case", "of_small"), [(True, 10), (False, 1)]
)
def test_added_tokens_are_kept_whole(do_lower_case, of_small):
    added = {"[E1]": 10, "[/E1]": 11, "[E1][E1]": 12, "<é b>": 13}
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *"abe䶵", "##b"))
    vocabulary = vocabulary.with_added(added)
    parts = [*added.items(), ("a", 5), ("[/E1]", 11), ("䶴", 1), ("<é b>", 13)]
    parts += [("䶵", 8), ("[E1]", 10), ("é" if do_lower_case else "e", 7)]
    starts = np.cumsum([0, *(len(text) for text, _ in parts)]).tolist()
    text = "".join(text for text, _ in parts)
    ids = [i for _, i in parts]
    spans = span_tokenizer(vocabulary, do_lower_case)([text])[0]
    assert spans == [*zip(ids, starts, starts[1:], strict=False)]
    tokenizer = GraphTokenizer(vocabulary, do_lower_case)
    assert tokenizer.tokenize(tf.constant([text])).to_list() == [ids]
    small = tokenizer.tokenize(tf.constant(["[e1]"])).to_list()[0]
    assert small[0] == of_small


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
SPELLED = Vocabulary(
    (
        *SPECIAL_TOKENS,
        *LETTERS,
        *(f"##{x}" for x in LETTERS if x != "ß"),  # so that some are unknown
        *("cafe", "##fe", "un", "##able"),
    )
)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    return multilingual.learn_vocabulary(tmp_path_factory.mktemp("model"))


def _check(drawn, vocabulary, mode):
    """Yields texts and their spans, which must be in order."""
    found = span_tokenizer(vocabulary, *mode)(drawn)
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
@hypothesis.given(
    st.lists(st.text(AWKWARD, max_size=24), min_size=4, max_size=4)
)
def test_word_pieces_cover_the_visible_text_in_order(drawn):
    for mode in MODES[:3]:
        for text, covered in _check(drawn, SPELLED, mode):
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
    (spans,) = span_tokenizer(SPELLED)([text])
    assert [text[span.start : span.end] for span in spans] == expected
