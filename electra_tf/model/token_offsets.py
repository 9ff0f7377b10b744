"""The tokens of a text, and where each of them stands in it.

The ids are those of `tokenization.FullTokenizer` or of a SentencePiece model,
and so, but for characters that are newer than Unicode 15.0, those that networks
read in the graph. What the tokenizer changes or drops (letter case, accents,
control characters, composed letters) keeps its place in the text as the user
wrote it.

Offsets never go back and tokens never overlap. What is dropped inside a word
belongs to the token before it, or to the first. A character that becomes
several tokens, as a Hangul syllable may, belongs to one of them (of word pieces
the first): the others are empty.
"""

import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_pb2

from electra_tf.model import tokenization
from electra_tf.model.tokenization import (
    SUFFIX_INDICATOR,
    Vocabulary,
    WordpieceTokenizer,
)

_UNKNOWN = "[UNK]"


class TokenSpan(NamedTuple):
    """A token of a text.

    Attributes:
      token_id: of the vocabulary.
      start: of its first character in the text.
      end: one past its last character.
    """

    token_id: int
    start: int
    end: int


class SpanTokenizer(Protocol):
    """Splits text into tokens that know where they stand."""

    def tokenize(self, text: str) -> list[TokenSpan]:
        """Returns the tokens of a text, in its order.

        Args:
          text: any text without lone surrogates.
        """


def make_span_tokenizer(
    vocabulary: Vocabulary,
    do_lower_case: bool = True,
    strip_accents: bool = True,
) -> SpanTokenizer:
    """Makes the tokenizer of a vocabulary.

    Args:
      vocabulary: of the tokens. What a SentencePiece model does to letter
        case and accents is part of it.
      do_lower_case: whether to lower-case before finding word pieces.
      strip_accents: whether to drop accents; only when lower-casing.
    """
    if vocabulary.sentencepiece:
        return SentencePieceSpanTokenizer(vocabulary)
    return WordpieceSpanTokenizer(vocabulary, do_lower_case, strip_accents)


def byte_offsets(text: str) -> np.ndarray:
    """Returns the offset in UTF-8 of each character, and of the end.

    Args:
      text: n characters.

    Returns:
      int64 [n + 1].
    """
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    sizes = 1 + sum(
        (codes >= code).astype(int) for code in (2**7, 2**11, 2**16)
    )
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


class WordpieceSpanTokenizer:
    """Splits text into word pieces.

    Args:
      vocabulary: of the tokens.
      do_lower_case: whether to lower-case.
      strip_accents: whether to drop accents; only when lower-casing.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        do_lower_case: bool = True,
        strip_accents: bool = True,
    ) -> None:
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self._ids = vocabulary.ids
        self._wordpiece_tokenizer = WordpieceTokenizer(vocabulary.ids)

    def tokenize(self, text: str) -> list[TokenSpan]:
        """Returns the word pieces of a text.

        Args:
          text: any text without lone surrogates.
        """
        return [span for word in _words(text) for span in self._spans(word)]

    def _spans(self, word: "_Word") -> Iterator[TokenSpan]:
        """Yields the tokens of what stands between white space."""
        first, end = word.places[0], word.places[-1] + 1
        normalized = self._normalize(word)
        pieces = list(self._pieces(normalized.letters))
        if not pieces:  # nothing but accents
            return
        starts = itertools.accumulate((size for _, size in pieces), initial=0)
        borders = _borders(normalized.places, list(starts), first, end)
        for (piece, _), (start, stop) in zip(
            pieces, itertools.pairwise(borders), strict=True
        ):
            yield TokenSpan(self._ids[piece], start, stop)

    def _normalize(self, word: "_Word") -> "_Word":
        """Lower-cases a word and drops its accents."""
        if not self.do_lower_case:
            return word
        letters, places = word.letters.lower(), word.places
        if len(letters) != len(places):  # some become two, as the dotted I
            places = [
                place
                for letter, place in zip(*word, strict=True)
                for _ in letter.lower()
            ]
        if letters.isascii() or not self.strip_accents:
            return _Word(letters, places)
        return _without_accents(_Word(letters, places))

    def _pieces(self, letters: str) -> Iterator[tuple[str, int]]:
        """Yields the word pieces and how many letters each has."""
        for is_mark, run in itertools.groupby(
            letters, tokenization.is_punctuation
        ):
            run = "".join(run)
            for part in run if is_mark else [run]:
                prefix = 0
                for piece in self._wordpiece_tokenizer.tokenize(part):
                    size = len(piece) - prefix
                    yield piece, len(part) if piece == _UNKNOWN else size
                    prefix = len(SUFFIX_INDICATOR)


class SentencePieceSpanTokenizer:
    """Splits text into the pieces of a SentencePiece model.

    The space before a word, which is part of its first piece, is left out of
    the piece's place.

    Args:
      vocabulary: with the model.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=vocabulary.sentencepiece
        )

    def tokenize(self, text: str) -> list[TokenSpan]:
        """Returns the pieces of a text.

        Args:
          text: any text without lone surrogates.
        """
        encoded = self._processor.encode(text, out_type="serialized_proto")
        pieces = sentencepiece_pb2.SentencePieceText.FromString(encoded).pieces
        places = [(piece.begin, piece.end) for piece in pieces]  # in bytes
        borders = np.searchsorted(byte_offsets(text), places).tolist()
        spans, last = [], 0
        for piece, (begin, end) in zip(pieces, borders, strict=True):
            start = max(last, end - len(text[begin:end].lstrip()))
            last = start + len(text[start:end].rstrip())
            spans.append(TokenSpan(piece.id, start, last))
        return spans


class _Word(NamedTuple):
    """Letters, and the place of each in the text."""

    letters: str
    places: Sequence[int]


def _words(text: str) -> Iterator[_Word]:
    """Yields what stands between white space, as `BasicTokenizer` cleans it."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        kept = tokenization.clean(character)
        if not kept:
            continue
        if (kept.isspace() or len(kept) > 1) and letters:
            yield _Word("".join(letters), places)
            letters, places = [], []
        if len(kept) > 1:  # a Chinese character between spaces
            yield _Word(character, [place])
        elif not kept.isspace():
            letters.append(character)
            places.append(place)
    if letters:
        yield _Word("".join(letters), places)


def _without_accents(word: _Word) -> _Word:
    """Decomposes letters as NFD does, and drops the accents among them."""
    parts = [
        (part, place)
        for letter, place in zip(*word, strict=True)
        for part in unicodedata.normalize("NFD", letter)
    ]
    kept = [
        (part, place)
        for _, run in itertools.groupby(
            parts, lambda part: unicodedata.combining(part[0]) > 0
        )
        for part, place in sorted(
            run, key=lambda part: unicodedata.combining(part[0])
        )
        if unicodedata.category(part) != "Mn"
    ]
    return _Word("".join(part for part, _ in kept), [p for _, p in kept])


def _borders(
    places: Sequence[int], starts: Sequence[int], first: int, end: int
) -> list[int]:
    """Returns where the tokens of a word meet in the text.

    Args:
      places: of each letter of the normalized word.
      starts: the first letter of each token, and the number of letters.
      first: character of the word in the text.
      end: one past its last character.

    Returns:
      The start of each token, and the end of the last; they never go back.
    """
    reach = list(itertools.accumulate(places, max))
    inner = [max(places[i], reach[i - 1] + 1) for i in starts[1:-1]]
    return [first, *inner, end]
