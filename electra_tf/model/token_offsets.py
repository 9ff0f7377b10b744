"""The tokens of texts, with character offsets into the original string.

The tokens are those that networks read, with the byte offsets that
`graph_tokenization` finds for them. Here bytes are mapped to characters of the
user's own string, so that the spans are in order and never overlap. Characters
that the tokenizer drops inside a word (an accent, a soft hyphen) belong to the
token before them, or else to the first. A character that becomes several
tokens, as a Hangul syllable may, belongs to the first of them; the spans of the
others are empty.
"""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.model.graph_tokenization import make_tokenizer
from electra_tf.model.tokenization import Vocabulary

_SPACE = re.compile(r"\s")


class TokenSpan(NamedTuple):
    """A token of a text."""

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
        return [list(_spans(text, *row)) for text, row in pairs]

    return tokenize


def byte_offsets(text: str) -> np.ndarray:
    """Returns the UTF-8 byte offset of each character, and of the end."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    sizes = 1 + sum(
        (codes >= code).astype(int) for code in (2**7, 2**11, 2**16)
    )
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _spans(
    text: str, ids: Sequence[int], begins: Sequence[int], ends: Sequence[int]
) -> Iterator[TokenSpan]:
    """Yields the spans of a text's tokens, from their byte offsets."""
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
    for token_id, (start, end) in zip(ids, borders, strict=True):
        yield TokenSpan(token_id, start, end)


def _dropped(gap: str, *, is_first: bool = False) -> tuple[int, int]:
    """Counts the characters of a gap that belong to the tokens around it."""
    spaces = list(_SPACE.finditer(gap))
    if not spaces:
        return (0, len(gap)) if is_first else (len(gap), 0)
    return spaces[0].start(), len(gap) - spaces[-1].end()
