"""From questions to rows: [CLS] question [SEP] a part of the context [SEP].

Source: the original's finetune/qa/qa_tasks.py.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.preprocessing import (
    EID,
    TOKENS,
    FeatureSpec,
    QAExample,
    Row,
    TextTokenizer,
    join,
)
from electra_tf.finetune.qa.token_borders import WordTokens, tokens_of_words

_SCORER_COLUMNS = ("word_numbers", "numbers_in_word", "is_max_context")
_NO_TOKENS = np.zeros(0, np.int32)

SPECS = (
    *TOKENS,
    EID,
    FeatureSpec("start_positions"),
    FeatureSpec("end_positions"),
    FeatureSpec("is_impossible"),
    *(FeatureSpec(name, is_sequence=True) for name in _SCORER_COLUMNS),
)
"""The columns of the rows. The labels are `start_positions` and
`end_positions`, 0 and 0 if the row does not hold the answer, and
`is_impossible`, whether there is none. The last three are for the scorer, and
empty in training: `word_numbers`, 1 + the number of the context's word that a
token belongs to, 0 for other tokens; `numbers_in_word`, the number of a token
among those of its word, from 0; and `is_max_context`, 1 on tokens of the
context that no other row of the question shows with more context around."""


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
    answers = [
        example.words[number]
        for example in examples
        if example.is_found
        for number in (example.first_word, example.last_word)
    ]
    borders = tokens_of_words(answers, tokenizer.in_graph)
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
            answer = _answer_tokens(example, ends, borders)
            offset = len(question) + 2  # where the context begins
            windows = get_windows(
                len(tokens), max_seq_length - offset - 1, config.doc_stride
            )
            best = None if is_training else max_context(windows, len(tokens))
            for number, (first, end) in enumerate(windows):
                start = stop = 0
                if answer and first <= answer[0] and answer[1] < end:
                    start, stop = (x - first + offset for x in answer)
                has_label = stop or example.is_impossible
                if (
                    is_training
                    and config.drop_unanswered_windows
                    and not has_label
                ):
                    continue
                row = join(tokenizer.vocabulary, question, tokens[first:end])
                row |= {"start_positions": start, "end_positions": stop}
                row |= dict.fromkeys(_SCORER_COLUMNS, _NO_TOKENS)
                if not is_training:
                    values = {k: x[first:end] for k, x in columns.items()}
                    values["is_max_context"] = best[first:end] == number
                    for name, x in values.items():
                        row[name] = np.pad(x, (offset, 1)).astype(np.int32)
                row["eid"] = example.eid
                row["is_impossible"] = int(example.is_impossible)
                yield row


def _answer_tokens(
    example: QAExample, ends: np.ndarray, borders: Mapping[str, WordTokens]
) -> tuple[int, int] | None:
    """Returns first and last of the tokens that overlap the answer."""
    if not example.is_found or example.is_impossible:
        return None
    numbers = example.first_word, example.last_word
    first_word, last_word = (example.words[i] for i in numbers)
    start = len(first_word[: example.answer_start].encode())
    end = len(last_word[: example.answer_end].encode())
    num_first = np.sum(borders[first_word].ends > start)  # from the answer on
    num_last = np.sum(borders[last_word].starts < end)  # up to its end
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
