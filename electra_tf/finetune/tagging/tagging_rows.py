"""Rows of tokens from sentences of words: windows over long sentences."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.finetune.examples import FeatureSpec
from electra_tf.finetune.preprocessing import TextTokenizer, join
from electra_tf.finetune.task import Row

COLUMNS = (
    FeatureSpec("first_word"),
    FeatureSpec("labels_mask", is_float=True, is_sequence=True),
    FeatureSpec("labeled_positions", is_sequence=True),
)
"""Columns besides tokens, as `TaggingHead` reads them; the last one holds the
position of the first token of each word."""


class SentenceWindow(NamedTuple):
    """A part of a sentence that fits into a row."""

    first: int
    end: int
    first_scored: int
    end_scored: int


def rows_of(
    sentences: Sequence[Sequence[str]],
    tokenizer: TextTokenizer,
    max_seq_length: int,
) -> Iterator[tuple[int, SentenceWindow, Row]]:
    """Yields the rows of sentences, several for a long sentence."""
    window_size = max_seq_length - 2
    unknown = np.array([tokenizer.vocabulary.unk_id])
    words = [word for sentence in sentences for word in sentence]
    tokens = iter(tokenizer.tokenize(words))
    for number, sentence in enumerate(sentences):
        mine = itertools.islice(tokens, len(sentence))
        pieces = [ids[:window_size] if ids.size else unknown for ids in mine]
        for window in get_windows([len(x) for x in pieces], window_size):
            part = pieces[window.first : window.end]
            joined = join(tokenizer.vocabulary, np.concatenate(part))
            yield number, window, {**joined, **_columns(window, part)}


def _columns(window: SentenceWindow, pieces: Sequence[np.ndarray]) -> Row:
    sizes = [len(piece) for piece in pieces]
    numbers = np.arange(window.first, window.end)
    is_scored = (numbers >= window.first_scored) & (numbers < window.end_scored)
    return {
        "segment_ids": np.ones(sum(sizes) + 2, np.int32),
        "first_word": window.first,
        "labels_mask": is_scored.astype(np.float32),
        "labeled_positions": 1 + np.cumsum([0, *sizes[:-1]]),
    }


def get_windows(sizes: Sequence[int], window_size: int) -> list[SentenceWindow]:
    """Covers a sentence with windows so that each word is scored once."""
    spans = [(0, _window_end(sizes, 0, window_size))]
    while spans[-1][1] < len(sizes):
        first = _next_window_start(sizes, spans[-1], window_size)
        spans.append((first, _window_end(sizes, first, window_size)))
    cuts = [
        (end + first) // 2
        for (_, end), (first, _) in zip(spans, spans[1:], strict=False)
    ]
    return [
        SentenceWindow(*span, first_scored, end_scored)
        for span, first_scored, end_scored in zip(
            spans, [0, *cuts], [*cuts, len(sizes)], strict=True
        )
    ]


def _window_end(sizes: Sequence[int], first: int, window_size: int) -> int:
    """Returns the end of the longest window from a word on."""
    end, used = first, 0
    while end < len(sizes) and used + sizes[end] <= window_size:
        used += sizes[end]
        end += 1
    return end


def _next_window_start(
    sizes: Sequence[int], before: tuple[int, int], window_size: int
) -> int:
    """Returns where the next window begins, so that it also ends later."""
    first, end = before
    begin, used = end, 0
    max_overlap = min(window_size // 4, window_size - sizes[end])
    while begin - 1 > first and used + sizes[begin - 1] <= max_overlap:
        begin -= 1
        used += sizes[begin]
    return begin
