"""Examples of question answering from contexts, questions and answers."""

import bisect
import re
from typing import NamedTuple

from electra_tf.data.tables import BadRowError, Row
from electra_tf.finetune.examples import QAExample
from electra_tf.util.errors import shorten_repr

SPACES = " \t\r\n\u202f"
"""What separates words. As in the original, other white space of Unicode is
part of a word."""

_WORD = re.compile(f"[^{SPACES}]+")


class AnswerPlace(NamedTuple):
    """The place of an answer in a context."""

    first_word: int
    last_word: int
    start: int = 0
    end: int | None = None


class Context:
    """A text and its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = tuple(_WORD.findall(text))
        self._starts = [match.start() for match in _WORD.finditer(text)]

    def find(self, answer: str, start: int) -> AnswerPlace | None:
        """Returns the place of an answer.

        Differs: all white space of Unicode is alike here; the original drops a
        question whose answer holds some that does not separate words.
        """
        first = self._word_at(start)
        last = self._word_at(start + len(answer) - 1)
        words = " ".join(self.words[first : last + 1]).split()
        parts = answer.split()
        is_there = " ".join(parts).lower() in " ".join(words).lower()
        if not is_there or first < 0:
            return None
        pattern = r"\s+".join(map(re.escape, parts))
        places = re.compile(f"(?=({pattern}))", re.IGNORECASE).finditer(
            self.text,
            self._starts[first],
            self._starts[last] + len(self.words[last]),
        )
        spans = [match.span(1) for match in places if parts]
        if not spans:
            return AnswerPlace(first, last)
        begin, end = min(spans, key=lambda span: abs(span[0] - start))
        first, last = self._word_at(begin), self._word_at(end - 1)
        begin, end = begin - self._starts[first], end - self._starts[last]
        return AnswerPlace(first, last, begin, end)

    def _word_at(self, character: int) -> int:
        """Returns the number of the last word that begins by a character."""
        return bisect.bisect(self._starts, character) - 1


class Answer(NamedTuple):
    """An answer and its place."""

    text: str
    start: int


class Question(NamedTuple):
    """A question, as a file has it."""

    qas_id: str
    text: str
    answers: tuple[str, ...]
    located_answers: tuple[Answer, ...]
    is_impossible: bool = False


def make_example(eid: int, context: Context, question: Question) -> QAExample:
    """Makes an example of a question and its context."""
    size = len(context.text)
    for answer in question.located_answers:
        if not 0 <= answer.start <= size - len(answer.text):
            raise BadRowError(
                f"An answer must lie in the context, of {size} characters. "
                f"Received: {shorten_repr(answer.text)} at {answer.start}."
            )
    answer_text, place = "", None
    if question.located_answers and not question.is_impossible:
        answer_text, start = question.located_answers[0]
        place = context.find(answer_text, start)
    first, last, begin, end = place or (None, None, 0, None)
    return QAExample(
        eid=eid,
        qas_id=question.qas_id,
        question=question.text,
        context=context.text,
        words=context.words,
        answers=question.answers,
        answer_text=answer_text,
        first_word=first,
        last_word=last,
        answer_start=begin,
        answer_end=end,
        is_impossible=question.is_impossible,
    )


def unanswered_example(eid: int, question: str, context: str) -> QAExample:
    """Makes an example whose answer is unknown."""
    row = Row({"question": question, "context": context}, eid)
    text, question = row.text("context"), row.text("question")
    return make_example(
        eid, Context(text), Question(str(eid), question, (), ())
    )
