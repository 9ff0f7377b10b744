"""From questions to rows: [CLS] question [SEP] a part of the context [SEP].

Source: the original's finetune/qa/qa_tasks.py.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.config.qa import QAConfig
from electra_tf.finetune.examples import EID, TOKENS, FeatureSpec, QAExample
from electra_tf.finetune.preprocessing import TextTokenizer, join
from electra_tf.finetune.task import Row

SPECS = (
    *TOKENS,
    EID,
    FeatureSpec("start_positions"),
    FeatureSpec("end_positions"),
    FeatureSpec("is_impossible"),
    FeatureSpec("word_numbers", is_sequence=True),
    FeatureSpec("is_max_context", is_sequence=True),
)
"""The columns of the rows. The labels are `start_positions` and
`end_positions`, 0 and 0 if the row does not hold the answer, and
`is_impossible`, whether there is none. The last two are for the scorer, and
empty in training: `word_numbers`, 1 + the number of the context's word that a
token belongs to, 0 for other tokens; and `is_max_context`, 1 on tokens of the
context that no other row of the question shows with more context around."""

_NO_TOKENS = np.zeros(0, np.int32)


class Window(NamedTuple):
    """A part of a context.

    Attributes:
      start: number of its first token.
      length: tokens in it.
    """

    start: int
    length: int


class RowMaker:
    """Makes the rows of questions.

    Differs: a context is processed once for all its questions, and each
    distinct word is tokenized once. A context without tokens also has a row, so
    that its questions are answered. Rows to evaluate also have the position of
    the answer, for the loss.

    Args:
      tokenizer: of the encoder's vocabulary.
      config: of question answering.
      max_seq_length: tokens in a row.

    Attributes:
      num_with_answer: training rows so far that hold the answer.
      num_without_answer: training rows so far, made or left out, that lack
        the answer of a question that has one.
    """

    def __init__(
        self, tokenizer: TextTokenizer, config: QAConfig, max_seq_length: int
    ) -> None:
        self.tokenizer = tokenizer
        self.config = config.fitted(max_seq_length)
        self.max_seq_length = max_seq_length
        self.num_with_answer = 0
        self.num_without_answer = 0

    def rows(
        self, examples: Sequence[QAExample], *, is_training: bool
    ) -> Iterator[Row]:
        """Yields the rows of each question, window after window."""
        contexts = {example.context: example.words for example in examples}
        vocabulary = self._word_tokens(
            itertools.chain.from_iterable(contexts.values())
        )
        texts = self.tokenizer.tokenize
        questions = iter(texts([example.question for example in examples]))
        answers = iter(texts([example.answer_text for example in examples]))
        for _, group in itertools.groupby(examples, lambda x: x.context):
            group = list(group)
            context = _Context([vocabulary[word] for word in group[0].words])
            for example in group:
                question = next(questions)[: self.config.max_query_length]
                answer = context.answer_span(example, next(answers))
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

    def _rows(
        self,
        example: QAExample,
        question: np.ndarray,
        context: "_Context",
        *,
        answer: tuple[int, int] | None,
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
            if is_training and not example.is_impossible:
                self.num_with_answer += end > 0
                self.num_without_answer += not end
                if not end and self.config.drop_unanswered_windows:
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
                "is_max_context": _NO_TOKENS,
            }
            if best is not None:
                row["word_numbers"] = _pad_to_row(
                    1 + context.numbers[part], offset
                )
                row["is_max_context"] = _pad_to_row(
                    best[part] == number, offset
                )
            yield row


class _Context:
    """The tokens of a context.

    Args:
      words: the tokens of each word, int32 each.

    Attributes:
      tokens: int32 [n], of all words.
      numbers: int64 [n], of the word of each token.
    """

    def __init__(self, words: Sequence[np.ndarray]) -> None:
        sizes = [len(word) for word in words]
        self.tokens = np.concatenate([_NO_TOKENS, *words])
        self.numbers = np.repeat(np.arange(len(words)), sizes)
        self._ends = np.cumsum([0, *sizes])

    def answer_span(
        self, example: QAExample, answer: np.ndarray
    ) -> tuple[int, int] | None:
        """Returns the first and last token of the answer; None without any.

        Args:
          example: whose answer it is.
          answer: int32 [m], its tokens.
        """
        if example.first_word is None or example.is_impossible:
            return None
        first = int(self._ends[example.first_word])
        end = int(self._ends[example.last_word + 1])
        if first == end:
            return None
        return find_tokens(self.tokens, answer, first, end)


def _positions_in_row(
    answer: tuple[int, int] | None, window: Window, offset: int
) -> tuple[int, int]:
    """Returns an answer's start and end in a row; 0 if it is not all there."""
    if answer is None:
        return 0, 0
    start, end = answer
    if start < window.start or end >= sum(window):
        return 0, 0
    shift = offset - window.start
    return start + shift, end + shift


def _pad_to_row(values: np.ndarray, offset: int) -> np.ndarray:
    """Pads values with zeros for the tokens before and after the context."""
    return np.pad(values, (offset, 1)).astype(np.int32)


def get_windows(num_tokens: int, window_size: int, stride: int) -> list[Window]:
    """Covers a context with windows, each `stride` tokens after the last.

    Args:
      num_tokens: of the context; 0 has one empty window.
      window_size: tokens in a window.
      stride: limited to `window_size`, so that no token is left out.
    """
    windows = [Window(0, min(window_size, num_tokens))]
    while sum(windows[-1]) < num_tokens:
        start = windows[-1].start + min(window_size, stride)
        windows.append(Window(start, min(window_size, num_tokens - start)))
    return windows


def max_context(windows: Sequence[Window], num_tokens: int) -> np.ndarray:
    """Finds the window that shows each token with the most context.

    That is the window where the shorter side of the context is longest; longer
    windows have a small advantage, and the first wins ties.

    Returns:
      int64 [num_tokens], the number of a window for each token.
    """
    starts, lengths = np.array(windows).T[:, :, np.newaxis]  # [windows, 1]
    places = np.arange(num_tokens)
    left, right = places - starts, starts + lengths - 1 - places
    shorter = np.minimum(left, right)  # [windows, tokens], < 0 outside
    scores = np.where(shorter >= 0, shorter + 0.01 * lengths, -1.0)
    return np.argmax(scores, axis=0)


def find_tokens(
    tokens: np.ndarray, answer: np.ndarray, first: int, end: int
) -> tuple[int, int]:
    """Finds an answer among the tokens of the words that hold it.

    The first and last word may hold more than the answer: in "(1895-1943)."
    it may be 1895.

    Args:
      tokens: int [n], of the context.
      answer: int [m], its tokens.
      first: the first token of those words.
      end: the first token after them.

    Returns:
      Numbers of the first and the last token; those of the words if the answer
      is not found among them.
    """
    size = len(answer)
    for start in range(first, end - size + 1):
        if size and np.array_equal(tokens[start : start + size], answer):
            return start, start + size - 1
    return first, end - 1
