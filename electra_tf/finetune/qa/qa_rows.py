"""From questions to rows: [CLS] question [SEP] a part of the context [SEP].

Answers are located by the bytes of tokens: tokens of an answer alone may differ
from its tokens in a text, and a word may be a whole context without spaces.

Source: the original's finetune/qa/qa_tasks.py.
"""

import functools
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

SCORER_COLUMNS = ("word_numbers", "numbers_in_word", "is_max_context")
_NO_TOKENS = np.zeros(0, np.int32)
_CHARACTERS_AT_ONCE = 2**18
_WINDOWS_AT_ONCE = 256
_UNSPACED = (
    r"(?s).*[\p{Han}\p{Hiragana}\p{Katakana}\p{Khmer}\p{Lao}\p{Myanmar}\p{Thai}]"
    r".*"
)

COLUMNS = (
    "eid",
    "start_positions",
    "end_positions",
    "is_impossible",
    *SCORER_COLUMNS,
)
"""The columns besides tokens. Positions are 0 if a row lacks the answer. The
last three are empty in training: `word_numbers` counts the context's words from
1, `numbers_in_word` the tokens of a word from 0, and `is_max_context` is 1 on
tokens that no other row of the question shows with more context around."""


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

    Differs: a context without tokens also has a row; rows to evaluate also have
    the position of the answer, for the loss. The answer is found by its
    characters; the original takes the first tokens that are those of the answer
    alone, and whole words if there are none.
    """
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
    questions = [
        question[: config.max_query_length]
        for question in tokenizer.tokenize([x.question for x in examples])
    ]
    sizes = {k: sum(len(ids[x]) for x in v) for k, v in contexts.items()}
    windows = get_windows(
        [len(question) for question in questions],
        [sizes[example.context] for example in examples],
        max_seq_length,
        config.doc_stride,
    )
    windows = np.stack(windows, -1)  # [W, fields]
    is_best = itertools.repeat(None)
    if not is_training:
        is_best = _is_max_context(windows, max_seq_length)

    @functools.lru_cache(maxsize=1)
    def tokenized(context: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns tokens, the ends of words in them, and scorer's columns."""
        pieces = [ids[word] for word in contexts[context]]
        ends = np.cumsum([0, *map(len, pieces)])
        words = np.repeat(np.arange(len(pieces)), np.diff(ends))
        columns = np.stack([1 + words, np.arange(ends[-1]) - ends[words]])
        return np.concatenate([_NO_TOKENS, *pieces]), ends, columns

    for (number, first, size, *_), best in zip(windows, is_best, strict=False):
        example, question = examples[number], questions[number]
        tokens, ends, columns = tokenized(example.context)
        offset, end = len(question) + 2, first + size  # of the context
        start = stop = 0
        answer = _answer_tokens(example, ends, known)
        if answer and first <= answer[0] and answer[1] < end:
            start, stop = (int(x - first + offset) for x in answer)
        scored = [_NO_TOKENS] * len(SCORER_COLUMNS)
        if not is_training:
            scored = np.vstack([columns[:, first:end], best[:size]])
            scored = np.pad(scored, ((0, 0), (offset, 1))).astype(np.int32)
        yield {
            **join(tokenizer.vocabulary, question, tokens[first:end]),
            **dict(zip(SCORER_COLUMNS, scored, strict=True)),
            "eid": example.eid,
            "start_positions": start,
            "end_positions": stop,
            "is_impossible": int(example.is_impossible),
        }


def _is_max_context(windows: np.ndarray, length: int) -> Iterator[np.ndarray]:
    """Yields `is_max_context` of each window, in blocks."""
    for start in range(0, len(windows), _WINDOWS_AT_ONCE):
        block = Windows(*windows[start : start + _WINDOWS_AT_ONCE].T)
        yield from is_max_context(block, np.arange(length)[np.newaxis]).numpy()


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


class Windows(NamedTuple):
    """Parts of contexts, question after question, int32 [W].

    Windows of a question hold up to `capacities` tokens and begin `steps`
    tokens apart, in a context of `totals` tokens.
    """

    questions: tf.Tensor
    starts: tf.Tensor
    sizes: tf.Tensor
    steps: tf.Tensor
    capacities: tf.Tensor
    totals: tf.Tensor


def get_windows(
    question_sizes: tf.Tensor,
    context_sizes: tf.Tensor,
    max_seq_length: int,
    stride: int,
) -> Windows:
    """Covers contexts with windows, also in a graph; sizes are tokens [B]."""
    totals = tf.cast(context_sizes, tf.int32)
    capacities = max_seq_length - 3 - tf.cast(question_sizes, tf.int32)
    steps = tf.minimum(capacities, stride)
    rest = tf.maximum(totals - capacities, 0)
    counts = 1 + (rest + steps - 1) // steps
    owners = tf.repeat(tf.range(tf.size(counts)), counts)  # [W]
    before = tf.gather(tf.cumsum(counts, exclusive=True), owners)
    steps, capacities, totals = (
        tf.gather(x, owners) for x in (steps, capacities, totals)
    )
    starts = (tf.range(tf.size(owners)) - before) * steps
    sizes = tf.minimum(capacities, totals - starts)
    return Windows(owners, starts, sizes, steps, capacities, totals)


def is_max_context(windows: Windows, places: tf.Tensor) -> tf.Tensor:
    """Finds tokens that no other window shows with more context, [W, L].

    Shapes: places [W, L], tokens after the start of the window.
    """
    _, starts, _, steps, capacities, totals = (
        tf.convert_to_tensor(x)[:, tf.newaxis, tf.newaxis] for x in windows
    )
    reach = 1 + tf.reduce_max((windows.capacities - 1) // windows.steps)
    others = starts + tf.range(-reach, reach + 1) * steps  # [W, 1, 2 reach + 1]
    is_needed = others - steps + capacities < totals
    is_window = (others == 0) | ((others > 0) & is_needed)
    sizes = tf.minimum(capacities, totals - others)
    tokens = starts + places[..., tf.newaxis]  # [W, L, 1]
    shorter = tf.minimum(tokens - others, others + sizes - 1 - tokens)
    scores = tf.cast(shorter, tf.float64) + 0.01 * tf.cast(sizes, tf.float64)
    scores = tf.where(is_window & (shorter >= 0), scores, -1.0)
    return tf.argmax(scores, -1, tf.int32) == reach


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
    index = tf.searchsorted(places, bytes_, side="left")
    return tf.gather(tf.concat([places, [places.dtype.max]], 0), index)
