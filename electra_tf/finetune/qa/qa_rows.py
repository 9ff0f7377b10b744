"""From questions to rows: [CLS] question [SEP] a part of the context [SEP].

Answers are found by the bytes that tokens were made of: a token of an answer
alone may differ from those within a text, and its characters may occur several
times in a word, which is a whole context where no spaces are written.

Source: the original's finetune/qa/qa_tasks.py.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.columns import QAConfig
from electra_tf.data.packing import batches
from electra_tf.finetune.preprocessing import (
    QAExample,
    Row,
    TextTokenizer,
    join,
)
from electra_tf.finetune.qa.qa_files import SPACES
from electra_tf.model.graph_tokenization import (
    GraphTokenizer,
    Tokenizer,
    character_bytes,
    without_invalid_bytes,
)

_SCORER_COLUMNS = ("word_numbers", "numbers_in_word", "is_max_context")
_NO_TOKENS = np.zeros(0, np.int32)
_CHARACTERS_AT_ONCE = 2**18
_UNSPACED = (
    r"(?s).*[\p{Han}\p{Hiragana}\p{Katakana}\p{Khmer}\p{Lao}\p{Myanmar}\p{Thai}]"
    r".*"
)

COLUMNS = (
    "eid",
    "start_positions",
    "end_positions",
    "is_impossible",
    *_SCORER_COLUMNS,
)
"""The columns besides tokens. The labels are `start_positions` and
`end_positions`, 0 and 0 if the row does not hold the answer, and
`is_impossible`, whether there is none. The last three are for the scorer, and
empty in training: `word_numbers`, 1 + the number of the context's word that a
token belongs to, 0 for other tokens; `numbers_in_word`, the number of a token
among those of its word, from 0; and `is_max_context`, 1 on tokens of the
context that no other row of the question shows with more context around."""


class WordTokens(NamedTuple):
    """The bytes of the tokens of a word; and as `alignment` returns."""

    starts: np.ndarray
    ends: np.ndarray
    length_change: int
    is_unspaced: bool


def rows_of(
    examples: Sequence[QAExample],
    tokenizer: TextTokenizer,
    config: QAConfig,
    max_seq_length: int,
    *,
    is_training: bool,
) -> Iterator[Row]:
    """Yields the rows of each question, window after window.

    Differs: a context is processed once for all its questions, and each
    distinct word is tokenized once. A context without tokens also has a row, so
    that its questions are answered. Rows to evaluate also have the position of
    the answer, for the loss. The answer is found by its characters, not by its
    tokens; the original takes the first tokens that are those of the answer
    alone, and whole words if there are none.
    """
    config = config.fitted(max_seq_length)
    contexts = {example.context: example.words for example in examples}
    words = list(dict.fromkeys(itertools.chain(*contexts.values())))
    ids = dict(zip(words, tokenizer.tokenize(words), strict=True))
    known = tokens_of_words(
        [
            example.words[number]
            for example in examples
            if example.is_found
            for number in (example.first_word, example.last_word)
        ],
        tokenizer.in_graph,
    )
    questions = iter(tokenizer.tokenize([x.question for x in examples]))
    for _, group in itertools.groupby(examples, lambda x: x.context):
        group = list(group)
        context = [ids[word] for word in group[0].words]
        ends = np.cumsum([0, *map(len, context)])  # of words, in tokens
        numbers = np.repeat(np.arange(len(context)), np.diff(ends))
        columns = {
            "word_numbers": 1 + numbers,
            "numbers_in_word": np.arange(ends[-1]) - ends[numbers],
        }
        tokens = np.concatenate([_NO_TOKENS, *context])
        for example in group:
            question = next(questions)[: config.max_query_length]
            answer = _answer_tokens(example, ends, known)
            offset = len(question) + 2  # where the context begins
            windows = get_windows(
                len(tokens), max_seq_length - offset - 1, config.doc_stride
            )
            best = None if is_training else max_context(windows, len(tokens))
            for number, (first, end) in enumerate(windows):
                start = stop = 0
                if answer and first <= answer[0] and answer[1] < end:
                    start, stop = (x - first + offset for x in answer)
                row = join(tokenizer.vocabulary, question, tokens[first:end])
                row |= dict.fromkeys(_SCORER_COLUMNS, _NO_TOKENS)
                if not is_training:
                    values = {k: x[first:end] for k, x in columns.items()}
                    values["is_max_context"] = best[first:end] == number
                    for name, x in values.items():
                        row[name] = np.pad(x, (offset, 1)).astype(np.int32)
                yield row | {
                    "eid": example.eid,
                    "start_positions": start,
                    "end_positions": stop,
                    "is_impossible": int(example.is_impossible),
                }


def _answer_tokens(
    example: QAExample, ends: np.ndarray, known: Mapping[str, WordTokens]
) -> tuple[int, int] | None:
    """Returns first and last of the tokens that overlap the answer."""
    if not example.is_found or example.is_impossible:
        return None
    numbers = example.first_word, example.last_word
    first_word, last_word = (example.words[i] for i in numbers)
    start = len(first_word[: example.answer_start].encode())
    end = len(last_word[: example.answer_end].encode())
    num_first = np.sum(known[first_word].ends > start)  # from the answer on
    num_last = np.sum(known[last_word].starts < end)  # up to its end
    first = int(ends[numbers[0] + 1] - num_first)
    last = int(ends[numbers[1]] + num_last - 1)
    if first > last:  # the answer has no token of its own
        first, last = int(ends[numbers[0]]), int(ends[numbers[1] + 1]) - 1
    return (first, last) if first <= last else None


def get_windows(
    num_tokens: int, window_size: int, stride: int
) -> list[tuple[int, int]]:
    """Covers a context with windows from `stride` to `stride` tokens."""
    step = min(window_size, stride)
    rest = max(0, num_tokens - window_size)
    return [
        (first, min(first + window_size, num_tokens))
        for first in range(0, rest + step, step)
    ]


def max_context(
    windows: Sequence[tuple[int, int]], num_tokens: int
) -> np.ndarray:
    """Finds the window that shows each token with the most context."""
    best, scores = np.zeros(num_tokens, int), np.full(num_tokens, -1.0)
    for number, (first, end) in enumerate(windows):
        left, part = np.arange(end - first), slice(first, end)
        score = np.minimum(left, left[::-1]) + 0.01 * (end - first)
        best[part][score > scores[part]] = number
        scores[part] = np.maximum(score, scores[part])
    return best


def tokens_of_words(
    words: Iterable[str], tokenizer: Tokenizer
) -> dict[str, WordTokens]:
    """Describes the tokens of each distinct word."""
    known = {}
    unique = dict.fromkeys(words)  # a word may be a whole context
    for part in batches(unique, size=len, enough=_CHARACTERS_AT_ONCE):
        texts = tf.constant(part)
        borders = token_borders(texts, tokenizer)
        splits = borders[0].row_splits.numpy()[1:-1]
        columns = [np.split(x.values.numpy(), splits) for x in borders]
        columns += [x.numpy().tolist() for x in alignment(texts, tokenizer)]
        known |= zip(part, map(WordTokens, *columns), strict=True)
    return known


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


def token_borders(
    words: tf.Tensor, tokenizer: Tokenizer
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Finds the first byte and the end of the tokens of words, [B, (tokens)].

    White space is of no token, and a mark of the token before it.

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
