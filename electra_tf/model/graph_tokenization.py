"""Tokenizers as TensorFlow graphs, for data pipelines and exported models.

The ids of word pieces are those of the original's tokenizer in Python, whose
normalization differs from tensorflow-text's: text is normalized here, unless a
regular expression finds that it only needs lower-casing.

Differs in rare characters: Unicode 15.0 determines here which code points are
assigned (others are dropped), 13.0 how to lower-case.

Token spans are in order and do not overlap. Characters that the tokenizer drops
inside a word belong to the token before them, or else to the first; a character
that becomes several tokens belongs to the first of them.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tft

from electra_tf.model.tensor_ops import shape_of
from electra_tf.model.tokenization import (
    CHINESE_RANGES,
    MAX_INPUT_CHARS_PER_WORD,
    SUFFIX_INDICATOR,
    Vocabulary,
)

_VALID = r"[\x00-\x{D7FF}\x{E000}-\x{10FFFF}]*"
_CONTROL = r"[^\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\t\n\r]|\x{FFFD}"
_ACCENT = r"\p{Mn}"
_CHINESE = "".join(
    rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last in CHINESE_RANGES
)
_PUNCTUATION_OR_CHINESE = rf"[\p{{P}}$+<=>^`|~{_CHINESE}]"
_LONG_WORD = rf"[^\p{{Z}}\t\n\r]{{{MAX_INPUT_CHARS_PER_WORD + 1},}}"
_WHITE_SPACE = r"[\p{Z}\t\n\r]+"
_MAX_BYTES_PER_WORD = 4 * MAX_INPUT_CHARS_PER_WORD
_FOREIGN = "\U0010fffd"  # a private character, which no model has a piece for
_UNKNOWN_WORD = "x" * (_MAX_BYTES_PER_WORD + 1)

# Printable ASCII and typographic characters of English: none is an accent or
# has one, and none beyond ASCII has a lower case.
_PLAIN_CHARACTER = (
    r"[!-~\x{A1}-\x{AC}\x{AE}-\x{BF}\x{D7}\x{F7}"
    r"\x{2010}-\x{2027}\x{2030}-\x{205E}\x{20AC}\x{2122}\x{2212}]"
)
_PLAIN = (
    rf"(?:{_PLAIN_CHARACTER}{{0,{MAX_INPUT_CHARS_PER_WORD}}}"
    r"(?:[ \t\n\r\x{A0}]|$))*"
)
_RARE = range(0x4DB5, 0x33FF, -1)  # of the first extension of Chinese
_SIGN_BYTES = 3
_SPACE = re.compile(r"\s")
_LONGER_CODES = (0x80, 0x800, 0x10000)  # the first of 2, 3 and 4 bytes


class Pieces(NamedTuple):
    """Tokens of texts and their byte offsets."""

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class SentencePieceTokenizer(tf.Module):
    """Splits text into the pieces of a SentencePiece model."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._tokenizer = tft.SentencepieceTokenizer(
            vocabulary.sentencepiece, out_type=tf.int32
        )

    @property
    def assets(self) -> list[tf.Module]:
        """Files that a SavedModel must track."""
        return [self]

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenizer.tokenize(without_invalid_bytes(text))

    def tokenize_parts(
        self, parts: tf.Tensor, is_later: tf.Tensor
    ) -> tf.RaggedTensor:
        """Tokenizes parts [B] of texts, as if `is_later` [B] followed text."""
        foreign = tf.where(is_later, _FOREIGN, "")
        ids, starts, ends = self.tokenize_with_offsets(foreign + parts)
        start = tf.gather(tf.strings.length(foreign), ids.value_rowids())
        is_own = (starts.values >= start) | (ends.values > start)
        return tf.ragged.boolean_mask(ids, ids.with_values(is_own))

    def tokenize_with_offsets(self, text: tf.Tensor) -> Pieces:
        text = without_invalid_bytes(text)
        ids, *offsets = self._tokenizer.tokenize_with_offsets(text)
        return Pieces(ids, *(tf.cast(x, tf.int32) for x in offsets))


class GraphTokenizer:
    """Splits text into word pieces, in a `tf.data` map or a SavedModel."""

    assets = ()

    def __init__(
        self,
        vocabulary: Vocabulary,
        do_lower_case: bool = True,
        strip_accents: bool = True,
    ) -> None:
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self._cleaner = tft.FastBertNormalizer()
        ids = vocabulary.ids
        # What no text matches is replaced by a control, which texts lose.
        pieces = [
            x if x.split() == [x] and ids[x] == i else f"\x01{i}"
            for i, x in enumerate(vocabulary.tokens)
        ]
        # Rare Chinese characters, which are words, stand for added tokens.
        rare = (x for x in map(chr, _RARE) if x not in ids)
        self._rarest = next(rare)
        self._signs = dict(zip(vocabulary.added, rare, strict=False))
        self._surplus = np.zeros(len(pieces), np.int32)
        for token, sign in self._signs.items():
            pieces[ids[token]] = sign
            self._surplus[ids[token]] = len(token.encode()) - _SIGN_BYTES
        self._tokenizer = tft.FastWordpieceTokenizer(
            pieces,
            suffix_indicator=SUFFIX_INDICATOR,
            max_bytes_per_word=_MAX_BYTES_PER_WORD,
            token_out_type=tf.int32,
            unknown_token="[UNK]",
        )

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids of word pieces, int32 [B, (pieces)], of texts [B]."""
        clean = self._cleaner.normalize(self.normalize(self._sign(text)))
        return self._tokenizer.tokenize(clean)

    def tokenize_parts(
        self, parts: tf.Tensor, is_later: tf.Tensor
    ) -> tf.RaggedTensor:
        del is_later  # every part begins a word: no piece is a space
        return self.tokenize(parts)

    def tokenize_with_offsets(self, text: tf.Tensor) -> Pieces:
        words, word_starts, _ = split_words(self._sign(text), _WHITE_SPACE)
        clean = self._cleaner.normalize(self.normalize(words.values))
        ids, starts, ends = self._tokenizer.tokenize_with_offsets(clean)
        owners = ids.value_rowids()  # [all tokens], the word of each
        # The tokens of a word are all its normalized bytes, one after another.
        sums = _sums(tf.cast(ends.values - starts.values, tf.int32))
        word_sums = tf.gather(sums, ids.row_splits)
        first, end = (
            x - tf.gather(word_sums, owners) for x in (sums[:-1], sums[1:])
        )
        # The letter of a word that each of these bytes comes from.
        letters = tf.strings.unicode_split(
            words.values, "UTF-8", errors="ignore"
        )
        normal = tf.strings.regex_replace(
            self.normalize(letters.values), " ", ""
        )
        counts = tf.strings.length(normal)
        letter_sums = tf.gather(_sums(counts), letters.row_splits)
        sources = tf.RaggedTensor.from_row_splits(
            tf.repeat(tf.range(tf.size(counts)), counts),
            letter_sums,
            validate=False,
        )
        is_aligned = tf.equal(
            *(x[1:] - x[:-1] for x in (word_sums, letter_sums))
        )
        is_aligned = tf.gather(is_aligned, owners)
        first, last = (
            value_of_row(sources, owners, x, is_aligned)
            for x in (first, end - 1)
        )
        begins, stops = character_bytes(words.values)
        size = tf.gather(tf.strings.length(words.values), owners)
        begin = tf.where(is_aligned, tf.gather(begins.values, first), 0)
        stop = tf.where(is_aligned, tf.gather(stops.values, last), size)
        if self._signs:
            stop += tf.gather(self._surplus, ids.values)
        shift = tf.gather(word_starts.values, owners)
        splits = tf.gather(ids.row_splits, words.row_splits)
        return Pieces(
            *(
                tf.RaggedTensor.from_row_splits(x, splits, validate=False)
                for x in (ids.values, shift + begin, shift + stop)
            )
        )

    def _sign(self, text: tf.Tensor) -> tf.Tensor:
        """Replaces added tokens by signs and spaces of as many bytes."""
        if self._signs:
            signs = f"[{''.join(self._signs.values())}]"
            text = tf.strings.regex_replace(text, signs, self._rarest)
        for token in sorted(self._signs, key=len, reverse=True):
            pattern = "(?i)" * self.do_lower_case + re.escape(token)
            spaces = " " * (len(token.encode()) - _SIGN_BYTES)
            sign = self._signs[token] + spaces
            text = tf.strings.regex_replace(text, pattern, sign)
        return text

    def normalize(self, text: tf.Tensor) -> tf.Tensor:
        """Normalizes texts [B] as the reference does before it splits words.

        Differs: a word of too many characters is replaced by a placeholder.
        """
        kind = tf.cast(tf.strings.regex_full_match(text, _PLAIN), tf.int32)
        rows = tf.dynamic_partition(tf.range(tf.size(text)), kind, 2)
        other, plain = tf.dynamic_partition(text, kind, 2)
        if self.do_lower_case:
            plain = tf.strings.lower(plain)
        return tf.dynamic_stitch(rows, [self._normalize_any(other), plain])

    def _normalize_any(self, text: tf.Tensor) -> tf.Tensor:
        text = without_invalid_bytes(text)
        text = tf.strings.regex_replace(text, _CONTROL, "")
        if self.do_lower_case and self.strip_accents:
            text = tft.normalize_utf8(text, "NFD")
            text = tf.strings.regex_replace(text, _ACCENT, "")
            text = _lower(text, "I")
        elif self.do_lower_case:
            text = _lower(text, "IJÌÍĨĮİ")
        has_long_word = tf.reduce_any(
            tf.strings.regex_full_match(text, rf"(?s).*{_LONG_WORD}.*")
        )
        return tf.cond(
            has_long_word, lambda: _replace_long_words(text), lambda: text
        )


Tokenizer = SentencePieceTokenizer | GraphTokenizer


def make_tokenizer(
    vocabulary: Vocabulary,
    do_lower_case: bool = True,
    strip_accents: bool = True,
) -> Tokenizer:
    if vocabulary.sentencepiece:
        return SentencePieceTokenizer(vocabulary)
    return GraphTokenizer(vocabulary, do_lower_case, strip_accents)


def pack_rows(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None,
    vocabulary: Vocabulary,
    length: int,
    *,
    is_padded: bool = True,
) -> dict[str, tf.Tensor]:
    """Packs one or two texts into a row: [CLS] first [SEP] second [SEP]."""
    if second is None:
        texts = [first[:, : length - 2]]
    else:  # of equally long texts, the trimmer truncates its first argument
        trimmer = tft.ShrinkLongestTrimmer(length - 3)
        texts = trimmer.trim([second, first])[::-1]
    column = [first.nrows(tf.int32), 1]
    parts = [tf.fill(column, vocabulary.cls_id)]
    for text in texts:
        parts += [text, tf.fill(column, vocabulary.sep_id)]
    ids = tf.concat(parts, 1)
    shape = [None, length]
    if not is_padded:  # room for [CLS] and [SEP] even if there is no row
        shape = tf.stack([-1, tf.maximum(ids.bounding_shape(axis=1), 2)])
    input_ids = ids.to_tensor(shape=shape)  # [B, L]
    input_mask = tf.ones_like(ids).to_tensor(shape=shape)
    segment_ids = tf.zeros_like(input_ids)
    if second is not None:
        sizes = texts[0].row_lengths() + 2  # of the first segments
        longest = shape_of(input_ids)[1]
        segment_ids = input_mask - tf.sequence_mask(sizes, longest, tf.int32)
    return {
        "input_ids": input_ids,
        "input_mask": input_mask,
        "segment_ids": segment_ids,
    }


def without_invalid_bytes(text: tf.Tensor) -> tf.Tensor:
    """Removes bytes that are not UTF-8, after a fast check for any."""
    is_valid = tf.reduce_all(tf.strings.regex_full_match(text, _VALID))
    return tf.cond(
        is_valid,
        lambda: text,
        lambda: tf.strings.unicode_transcode(
            text, "UTF-8", "UTF-8", errors="ignore"
        ),
    )


def _lower(text: tf.Tensor, locale_dependent: str) -> tf.Tensor:
    for letter in locale_dependent:
        text = tf.strings.regex_replace(text, letter, letter.lower())
    return tf.strings.lower(text, "utf-8")


def _replace_long_words(text: tf.Tensor) -> tf.Tensor:
    """Replaces words of too many characters by one with too many bytes."""
    text = tf.strings.regex_replace(text, _PUNCTUATION_OR_CHINESE, r" \0 ")
    return tf.strings.regex_replace(text, _LONG_WORD, _UNKNOWN_WORD)


def split_words(text: tf.Tensor, between: str) -> tuple[tf.RaggedTensor, ...]:
    """Splits texts at a pattern: words, their first bytes and their ends."""
    text = without_nul(text)
    words, starts, ends = tft.regex_split_with_offsets(text, between)
    return words, tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)


def without_nul(text: tf.Tensor) -> tf.Tensor:
    """Replaces NUL, where tensorflow_text stops, by another control."""
    return tf.strings.regex_replace(text, r"\x00", "\x01")


def _sums(counts: tf.Tensor) -> tf.Tensor:
    """Returns 0 and the cumulative sums of counts."""
    return tf.concat([[0], tf.cumsum(counts)], 0)


def character_bytes(
    text: tf.Tensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the byte offsets at which characters begin and end: text [B]."""
    codes, starts = tf.strings.unicode_decode_with_offsets(
        text, "UTF-8", errors="ignore"
    )
    # On flat values: operators of ragged tensors add hundreds of graph nodes.
    flat, begins = codes.values, tf.cast(starts.values, tf.int32)
    longer = (tf.cast(flat >= code, tf.int32) for code in _LONGER_CODES)
    ends = begins + 1 + functools.reduce(tf.add, longer)
    return codes.with_values(begins), codes.with_values(ends)


def value_of_row(
    values: tf.RaggedTensor,
    rows: tf.Tensor,
    columns: tf.Tensor,
    is_there: tf.Tensor,
) -> tf.Tensor:
    """Looks up S values by row and column; int32 [S], 0 where there is none."""
    begins = tf.gather(tf.cast(values.row_starts(), tf.int32), rows)
    flat = tf.concat([[0], values.values], 0)
    return tf.gather(flat, tf.where(is_there, 1 + begins + columns, 0))


class TokenSpan(NamedTuple):
    token_id: int
    start: int
    end: int


@functools.lru_cache(maxsize=4)  # tracing takes time
def span_tokenizer(
    vocabulary: Vocabulary,
    do_lower_case: bool = True,
    strip_accents: bool = True,
) -> Callable[[Sequence[str]], list[list[TokenSpan]]]:
    """Makes a function that splits texts into tokens with character offsets."""
    find = tf.function(
        make_tokenizer(
            vocabulary, do_lower_case, strip_accents
        ).tokenize_with_offsets,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )

    def tokenize(texts: Sequence[str]) -> list[list[TokenSpan]]:
        pieces = find(tf.constant(texts, tf.string))
        rows = zip(*(column.to_list() for column in pieces), strict=True)
        pairs = zip(texts, rows, strict=True)
        return [_spans(text, *row) for text, row in pairs]

    return tokenize


def byte_offsets(text: str) -> np.ndarray:
    """Returns the UTF-8 byte offset of each character, and of the end."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    sizes = 1 + sum(codes >= code for code in _LONGER_CODES)
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _spans(
    text: str, ids: Sequence[int], begins: Sequence[int], ends: Sequence[int]
) -> list[TokenSpan]:
    """Returns the spans of a text's tokens, from their byte offsets."""
    pairs = np.searchsorted(byte_offsets(text), [begins, ends]).T.tolist()
    borders, last = [], 0  # one past the last character that a token has
    for begin, end in pairs:
        start = max(last, end - len(text[begin:end].lstrip()))
        end = start + len(text[start:end].rstrip())
        before, after = _dropped(text[last:start], is_first=not borders)
        if borders:
            borders[-1][1] += before
        borders.append([start - after, end])
        last = end
    if borders:
        borders[-1][1] += _dropped(text[last:])[0]
    pairs = zip(ids, borders, strict=True)
    return [TokenSpan(i, start, end) for i, (start, end) in pairs]


def _dropped(gap: str, *, is_first: bool = False) -> tuple[int, int]:
    """Counts the characters of a gap that belong to the tokens around it."""
    spaces = list(_SPACE.finditer(gap))
    if not spaces:
        return (0, len(gap)) if is_first else (len(gap), 0)
    return spaces[0].start(), len(gap) - spaces[-1].end()
