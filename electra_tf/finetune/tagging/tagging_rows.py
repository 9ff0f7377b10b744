"""Rows of tokens from sentences of words: windows over long sentences."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from electra_tf.finetune.preprocessing import (
    FeatureSpec,
    Row,
    TextTokenizer,
    join,
)

COLUMNS = (
    FeatureSpec("first_word"),
    FeatureSpec("labels_mask", is_float=True, is_sequence=True),
    FeatureSpec("labeled_positions", is_sequence=True),
)
"""Columns besides tokens, as `TaggingHead` reads them; the last one holds the
position of the first token of each word."""


def rows_of(
    sentences: Sequence[Sequence[str]],
    tokenizer: TextTokenizer,
    max_seq_length: int,
) -> Iterator[tuple[int, tuple[int, int], Row]]:
    """Yields the number of a sentence, a window of its words, and its row."""
    window_size = max_seq_length - 2
    unknown = np.array([tokenizer.vocabulary.unk_id])
    words = [word for sentence in sentences for word in sentence]
    tokens = iter(tokenizer.tokenize(words))
    for number, sentence in enumerate(sentences):
        mine = itertools.islice(tokens, len(sentence))
        pieces = [ids[:window_size] if ids.size else unknown for ids in mine]
        windows = get_windows([len(x) for x in pieces], window_size)
        for first, end, first_scored, end_scored in windows:
            part = pieces[first:end]
            starts = 1 + np.cumsum([0, *map(len, part)])
            numbers = np.arange(first, end)
            is_scored = (numbers >= first_scored) & (numbers < end_scored)
            row = join(tokenizer.vocabulary, np.concatenate(part))
            row["segment_ids"] = np.ones_like(row["segment_ids"])
            row["first_word"] = first
            row["labels_mask"] = is_scored.astype(np.float32)
            row["labeled_positions"] = starts[:-1]
            yield number, (first, end), row


def get_windows(
    sizes: Sequence[int], window_size: int
) -> list[tuple[int, int, int, int]]:
    """Covers a sentence with windows: first word and end, of all and scored.

    Each word is scored once, where it has more context.
    """

    def end_of(first: int) -> int:
        ends = first + np.flatnonzero(np.cumsum(sizes[first:]) <= window_size)
        return int(ends[-1]) + 1 if ends.size else first

    spans = [(0, end_of(0))]
    while spans[-1][1] < len(sizes):
        before, end = spans[-1]
        overlap = min(window_size // 4, window_size - sizes[end])
        first, used = end, 0
        while first - 1 > before and used + sizes[first - 1] <= overlap:
            first -= 1
            used += sizes[first]
        spans.append((first, end_of(first)))
    cuts = [
        (end + first) // 2 for (_, end), (first, _) in itertools.pairwise(spans)
    ]
    scored = zip([0, *cuts], [*cuts, len(sizes)], strict=True)
    return [(*span, *part) for span, part in zip(spans, scored, strict=True)]
