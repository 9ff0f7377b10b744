"""Examples of question answering from contexts, questions and answers."""

import bisect
import re
from typing import NamedTuple

from electra_tf.data.formats.rows import BadRowError, Record
from electra_tf.finetune.examples import QAExample
from electra_tf.util.errors import shorten_repr

# As in the original: other white space of Unicode is part of a word.
_WORD = re.compile("[^ \t\r\n\u202f]+")


class Context:
    """A text and its words.

    Args:
      text: any.

    Attributes:
      text: as it came.
      words: the text, split at white space.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = tuple(_WORD.findall(text))
        self._starts = [match.start() for match in _WORD.finditer(text)]

    def find(self, answer: str, start: int) -> tuple[int, int] | None:
        """Returns the first and the last word of an answer.

        Args:
          answer: its text.
          start: the character that it begins at.

        Returns:
          Their numbers; None if those words do not hold the text, apart from
          case and white space.
        """
        first = bisect.bisect(self._starts, start) - 1
        last = bisect.bisect(self._starts, start + len(answer) - 1) - 1
        there = " ".join(self.words[first : last + 1]).lower()
        is_there = " ".join(answer.split()).lower() in there
        return (first, last) if is_there and first >= 0 else None


class Answer(NamedTuple):
    """An answer and its place.

    Attributes:
      text: of the answer.
      start: the character of the context that it begins at.
    """

    text: str
    start: int


class Question(NamedTuple):
    """A question, as a file has it.

    Attributes:
      qas_id: its name.
      text: of the question.
      answers: gold answers.
      located_answers: answers with their positions; the first is learned.
      is_impossible: whether the file says that there is no answer.
    """

    qas_id: str
    text: str
    answers: tuple[str, ...]
    located_answers: tuple[Answer, ...]
    is_impossible: bool = False


def make_example(eid: int, context: Context, question: Question) -> QAExample:
    """Makes an example of a question and its context.

    Args:
      eid: the number of the example.
      context: the context.
      question: a question about it.

    Raises:
      BadRowError: if an answer lies outside the context.
    """
    size = len(context.text)
    for answer in question.located_answers:
        if not 0 <= answer.start <= size - len(answer.text):
            raise BadRowError(
                f"An answer must lie in the context, of {size} characters. "
                f"Received: {shorten_repr(answer.text)} at {answer.start}."
            )
    answer_text, words = "", None
    if question.located_answers and not question.is_impossible:
        answer_text, start = question.located_answers[0]
        words = context.find(answer_text, start)
    first, last = words or (None, None)
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
        is_impossible=question.is_impossible,
    )


def unanswered_example(eid: int, question: str, context: str) -> QAExample:
    """Makes an example whose answer is unknown.

    Raises:
      BadRowError: if the question or the context is empty.
    """
    row = Record(eid, {"question": question, "context": context})
    text, question = row.text("context"), row.text("question")
    return make_example(
        eid, Context(text), Question(str(eid), question, (), ())
    )
