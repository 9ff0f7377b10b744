"""From questions to rows: [CLS] question [SEP] a part of the context [SEP].

Source: the original's finetune/qa/qa_tasks.py.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.config.columns import QAConfig
from electra_tf.finetune.examples import EID, TOKENS, FeatureSpec, QAExample
from electra_tf.finetune.preprocessing import TextTokenizer, join
from electra_tf.finetune.qa.token_borders import WordTokens, tokens_of_words
from electra_tf.finetune.task import Row

SPECS = (
    *TOKENS,
    EID,
    FeatureSpec("start_positions"),
    FeatureSpec("end_positions"),
    FeatureSpec("is_impossible"),
    FeatureSpec("word_numbers", is_sequence=True),
    FeatureSpec("numbers_in_word", is_sequence=True),
    FeatureSpec("is_max_context", is_sequence=True),
)
"""The columns of the rows. The labels are `start_positions` and
`end_positions`, 0 and 0 if the row does not hold the answer, and
`is_impossible`, whether there is none. The last three are for the scorer, and
empty in training: `word_numbers`, 1 + the number of the context's word that a
token belongs to, 0 for other tokens; `numbers_in_word`, the number of a token
among those of its word, from 0; and `is_max_context`, 1 on tokens of the
context that no other row of the question shows with more context around."""

_NO_TOKENS = np.zeros(0, np.int32)


class ContextWindow(NamedTuple):
    """A part of a context."""

    start: int
    length: int


class RowMaker:
    """Makes the rows of questions.

    Differs: a context is processed once for all its questions, and each
    distinct word is tokenized once. A context without tokens also has a row, so
    that its questions are answered. Rows to evaluate also have the position of
    the answer, for the loss. The answer is found by its characters, not by its
    tokens; the original takes the first tokens that are those of the answer
    alone, and whole words if there are none.
    """

    def __init__(
        self, tokenizer: TextTokenizer, config: QAConfig, max_seq_length: int
    ) -> None:
        self.tokenizer = tokenizer
        self.config = config.fitted(max_seq_length)
        self.max_seq_length = max_seq_length

    def rows(
        self, examples: Sequence[QAExample], *, is_training: bool
    ) -> Iterator[Row]:
        """Yields the rows of each question, window after window."""
        contexts = {example.context: example.words for example in examples}
        vocabulary = self._word_tokens(
            itertools.chain.from_iterable(contexts.values())
        )
        border_words = self._border_words(examples)
        questions = iter(
            self.tokenizer.tokenize([example.question for example in examples])
        )
        for _, group in itertools.groupby(examples, lambda x: x.context):
            group = list(group)
            context = _Context([vocabulary[word] for word in group[0].words])
            for example in group:
                question = next(questions)[: self.config.max_query_length]
                answer = context.answer_span(example, border_words)
                yield from self._rows(
                    example,
                    question,
                    context,
                    answer=answer,
                    is_training=is_training,
                )

    def _word_tokens(self, words: Iterable[str]) -> Mapping[str, np.ndarray]:
        """Returns the tokens of every word."""
        unique = list(dict.fromkeys(words))
        return dict(zip(unique, self.tokenizer.tokenize(unique), strict=True))

    def _border_words(
        self, examples: Iterable[QAExample]
    ) -> Mapping[str, WordTokens]:
        """Describes the words where answers begin or end."""
        words = (
            example.words[number]
            for example in examples
            if example.is_found
            for number in (example.first_word, example.last_word)
        )
        return tokens_of_words(words, self.tokenizer.in_graph)

    def _rows(
        self,
        example: QAExample,
        question: np.ndarray,
        context: "_Context",
        *,
        answer: "_AnswerSpan | None",
        is_training: bool,
    ) -> Iterator[Row]:
        """Yields the rows of a question."""
        window_size = self.max_seq_length - len(question) - 3
        size = len(context.tokens)
        windows = get_windows(size, window_size, self.config.doc_stride)
        best = None if is_training else max_context(windows, size)
        offset = len(question) + 2  # where the context begins
        for number, window in enumerate(windows):
            part = slice(window.start, sum(window))
            start, end = _positions_in_row(answer, window, offset)
            is_dropped = self.config.drop_unanswered_windows and not end
            if is_training and is_dropped and not example.is_impossible:
                continue
            row = {
                **join(
                    self.tokenizer.vocabulary, question, context.tokens[part]
                ),
                "eid": example.eid,
                "start_positions": start,
                "end_positions": end,
                "is_impossible": int(example.is_impossible),
                "word_numbers": _NO_TOKENS,
                "numbers_in_word": _NO_TOKENS,
                "is_max_context": _NO_TOKENS,
            }
            if best is not None:
                columns = {
                    "word_numbers": 1 + context.numbers[part],
                    "numbers_in_word": context.numbers_in_word[part],
                    "is_max_context": best[part] == number,
                }
                for name, values in columns.items():
                    row[name] = np.pad(values, (offset, 1)).astype(np.int32)
            yield row


class _AnswerSpan(NamedTuple):
    """The tokens of an answer."""

    first: int
    last: int
    is_exact: bool


class _Context:
    """The tokens of a context."""

    def __init__(self, words: Sequence[np.ndarray]) -> None:
        sizes = [len(word) for word in words]
        self.tokens = np.concatenate([_NO_TOKENS, *words])
        self.numbers = np.repeat(np.arange(len(words)), sizes)
        self._ends = np.cumsum([0, *sizes])
        begins = np.repeat(self._ends[:-1], sizes)
        self.numbers_in_word = np.arange(len(self.tokens)) - begins

    def answer_span(
        self, example: QAExample, words: Mapping[str, WordTokens]
    ) -> _AnswerSpan | None:
        """Returns the tokens whose characters overlap the answer."""
        if not example.is_found or example.is_impossible:
            return None
        numbers = example.first_word, example.last_word
        first_word, last_word = (example.words[i] for i in numbers)
        start = len(first_word[: example.answer_start].encode())
        end = len(last_word[: example.answer_end].encode())
        opening, closing = words[first_word], words[last_word]
        starts = opening.starts[opening.ends > start]  # from the answer on
        ends = closing.ends[closing.starts < end]  # up to its end
        first = int(self._ends[numbers[0] + 1]) - len(starts)
        last = int(self._ends[numbers[1]]) + len(ends) - 1
        if first <= last:
            is_exact = (starts[:1] >= start).all() and (ends[-1:] <= end).all()
            return _AnswerSpan(first, last, bool(is_exact))
        first = int(self._ends[numbers[0]])
        last = int(self._ends[numbers[1] + 1]) - 1
        return _AnswerSpan(first, last, False) if first <= last else None


def _positions_in_row(
    answer: _AnswerSpan | None, window: ContextWindow, offset: int
) -> tuple[int, int]:
    """Returns an answer's start and end in a row; 0 if it is not all there."""
    if answer is None:
        return 0, 0
    start, end, _ = answer
    if start < window.start or end >= sum(window):
        return 0, 0
    shift = offset - window.start
    return start + shift, end + shift


def get_windows(
    num_tokens: int, window_size: int, stride: int
) -> list[ContextWindow]:
    """Covers a context with windows, each `stride` tokens after the last."""
    windows = [ContextWindow(0, min(window_size, num_tokens))]
    while sum(windows[-1]) < num_tokens:
        start = windows[-1].start + min(window_size, stride)
        windows.append(
            ContextWindow(start, min(window_size, num_tokens - start))
        )
    return windows


def max_context(
    windows: Sequence[ContextWindow], num_tokens: int
) -> np.ndarray:
    """Finds the window that shows each token with the most context."""
    best, scores = np.zeros(num_tokens, int), np.full(num_tokens, -1.0)
    for number, (start, length) in enumerate(windows):
        left, part = np.arange(length), slice(start, start + length)
        score = np.minimum(left, left[::-1]) + 0.01 * length
        best[part][score > scores[part]] = number
        scores[part] = np.maximum(score, scores[part])
    return best
