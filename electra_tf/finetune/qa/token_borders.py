"""The part of a word that each of its tokens was made of.

Tokens of an answer, and the answer of tokens, are found by these places: a
token of an answer alone may differ from those within a text, and its characters
may occur several times in a word. In a language that writes no spaces, a word
is a sentence or a whole context.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.data.packing import batches
from electra_tf.finetune.qa.qa_files import SPACES
from electra_tf.model.graph_tokenization import (
    GraphTokenizer,
    Tokenizer,
    character_bytes,
    without_invalid_bytes,
)

_CHARACTERS_AT_ONCE = 2**18
_UNSPACED = (
    r"(?s).*[\p{Han}\p{Hiragana}\p{Katakana}\p{Khmer}\p{Lao}\p{Myanmar}\p{Thai}]"
    r".*"
)


def token_borders(
    words: tf.Tensor, tokenizer: Tokenizer
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Finds the first byte and the end of the tokens of words, [B, (tokens)].

    Shapes: words [B].
    """
    pieces = tokenizer.tokenize_with_offsets(words)
    owners = pieces.ids.value_rowids()  # [all tokens], the word of each
    sizes = tf.strings.length(words)
    bases = tf.cumsum(sizes, exclusive=True)
    base, size = (tf.gather(x, owners) for x in (bases, sizes))
    raw_starts, raw_ends = (  # bytes of the words, one after the other
        base + tf.cast(x.values, tf.int32) for x in (pieces.starts, pieces.ends)
    )
    is_last = owners != tf.concat([owners[1:], [-1]], 0)
    nexts = tf.concat([raw_starts[1:], [0]], 0)
    nexts = tf.where(is_last, base + size, nexts)
    letters = tf.strings.unicode_split(words, "UTF-8", errors="ignore")
    begins, stops = (  # of all characters
        tf.gather(bases, letters.value_rowids()) + x.values
        for x in character_bytes(words)
    )
    is_space, is_mark = (
        tf.strings.regex_full_match(letters.values, kind)
        for kind in (r"[\s\p{Z}]", r"\p{M}")
    )
    seen = tf.boolean_mask(stops, ~is_space)
    starts = _first_from(tf.boolean_mask(begins, ~is_space), raw_starts)
    last_seen = tf.searchsorted(seen, raw_ends, side="right")
    ends = tf.where(
        raw_starts == raw_ends,
        _first_from(seen, raw_starts + 1),
        tf.maximum(base, tf.gather(tf.concat([[0], seen], 0), last_seen)),
    )
    after_marks = _first_from(tf.boolean_mask(begins, ~is_mark), ends)
    ends = tf.maximum(ends, tf.minimum(after_marks, nexts))
    is_valid = tf.gather(without_invalid_bytes(words) == words, owners)
    starts = tf.where(is_valid, tf.minimum(starts - base, size), 0)
    ends = tf.where(is_valid, tf.minimum(ends - base, size), size)
    return pieces.ids.with_values(starts), pieces.ids.with_values(ends)


def _first_from(places: tf.Tensor, bytes_: tf.Tensor) -> tf.Tensor:
    """Returns the first of some sorted places that is not before a byte."""
    found = tf.searchsorted(places, bytes_, side="left")
    return tf.gather(tf.concat([places, [places.dtype.max]], 0), found)


def alignment(
    texts: tf.Tensor, tokenizer: Tokenizer
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns by how many characters texts grow when normalized; and whether
    they are in a script without spaces, [B] each."""
    if not isinstance(tokenizer, GraphTokenizer):
        zeros = tf.zeros_like(tf.strings.length(texts))
        return zeros, zeros == 0
    texts = without_invalid_bytes(texts)
    after, before = (
        tf.strings.length(
            tf.strings.regex_replace(text, spaces, ""), unit="UTF8_CHAR"
        )
        for text, spaces in (
            (tokenizer.normalize(texts), r"[\s\p{Z}]"),
            (texts, f"[{SPACES}]"),
        )
    )
    return after - before, tf.strings.regex_full_match(texts, _UNSPACED)


class WordTokens(NamedTuple):
    """The bytes of the tokens of a word; see `alignment`."""

    starts: np.ndarray
    ends: np.ndarray
    length_change: int
    is_unspaced: bool


def tokens_of_words(
    words: Iterable[str], tokenizer: Tokenizer
) -> dict[str, WordTokens]:
    """Describes the tokens of each distinct word."""
    unique, found = [*dict.fromkeys(words)], []
    # A word may be a whole context.
    for batch in batches(unique, size=len, enough=_CHARACTERS_AT_ONCE):
        part = tf.constant(batch)
        borders = token_borders(part, tokenizer)
        splits = borders[0].row_splits.numpy()[1:-1]
        columns = [np.split(x.values.numpy(), splits) for x in borders]
        columns += [x.numpy().tolist() for x in alignment(part, tokenizer)]
        found += map(WordTokens, *columns)
    return dict(zip(unique, found, strict=True))
