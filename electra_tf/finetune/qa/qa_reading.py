"""Files of questions and contexts: SQuAD's JSON, and MRQA's JSON lines.

Source: the original's finetune/qa/qa_tasks.py. Differs: what is wrong with a
question is an error with its place; there it ends the run, or the question is
left out.
"""

import bisect
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from electra_tf.finetune.qa.examples import QAExample
from electra_tf.finetune.readers import json_fields
from electra_tf.finetune.readers.reading import (
    BadRowError,
    BadRows,
    Json,
    parse_json,
    read_bytes,
    read_lines,
)
from electra_tf.util.errors import UserError

# As the original's: what else Unicode calls white space is part of a word.
_WORD = re.compile("[^ \t\r\n\u202f]+")


class Context:
    """A text and its words.

    Args:
      text: any.

    Attributes:
      text: as it came.
      words: of it, as white space divides them.
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
          None if those words do not hold the text, but for case and white
          space.
        """
        first = bisect.bisect(self._starts, start) - 1
        last = bisect.bisect(self._starts, start + len(answer) - 1) - 1
        there = " ".join(self.words[first : last + 1]).lower()
        is_there = " ".join(answer.split()).lower() in there
        return (first, last) if is_there and first >= 0 else None


class Answer(NamedTuple):
    """An answer and where it stands.

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
      answers: right texts.
      places: where answers stand; the first is to be learnt.
      is_impossible: whether the file says that there is no answer.
    """

    qas_id: str
    text: str
    answers: tuple[str, ...]
    places: tuple[Answer, ...]
    is_impossible: bool = False


class Paragraph(NamedTuple):
    """A context with its questions.

    Attributes:
      place: of it in its file.
      content: what stands there.
    """

    place: str
    content: Json


def example(eid: int, context: Context, question: Question) -> QAExample:
    """Puts a question to its context.

    Args:
      eid: the number of the example.
      context: with the answer.
      question: to it.

    Raises:
      BadRowError: if an answer lies outside the context.
    """
    size = len(context.text)
    for answer in question.places:
        if not 0 <= answer.start <= size - len(answer.text):
            raise BadRowError(
                f"An answer must lie in the context, of {size} characters. "
                f"Received: {json_fields.short(answer.text)} at {answer.start}."
            )
    learnt, words = "", None
    if question.places and not question.is_impossible:
        learnt, start = question.places[0]
        words = context.find(learnt, start)
    first, last = words or (None, None)
    return QAExample(
        eid=eid,
        qas_id=question.qas_id,
        question=question.text,
        context=context.text,
        words=context.words,
        answers=question.answers,
        answer_text=learnt,
        first_word=first,
        last_word=last,
        is_impossible=question.is_impossible,
    )


def read_examples(
    path: pathlib.Path,
    paragraphs: Iterable[Paragraph],
    parse: Callable[[Json], Question],
    *,
    bad_rows: BadRows,
    is_training: bool,
) -> list[QAExample]:
    """Reads the questions of a file.

    In training, those whose answer does not stand where the file has it are
    left out, as in the original, and counted.

    Args:
      path: of the file.
      paragraphs: of the file.
      parse: makes a question of what stands for one.
      bad_rows: what to do about those that cannot be used.
      is_training: whether the questions are to learn from.

    Raises:
      UserError: naming file and question, if one cannot be used, or if there
        are none.
    """
    examples, names = [], set()
    for place, content in paragraphs:
        context, questions = Context(""), []
        with bad_rows.at(path, place):
            context = Context(json_fields.text(content, "context"))
            questions = json_fields.items(content, "qas")
        for number, one in enumerate(questions, start=1):
            where = f"{place}, question {json_fields.name(one) or number}"
            with bad_rows.at(path, where):
                question = parse(one)
                if not is_training:
                    _check_name(question.qas_id, names)
                made = example(len(examples), context, question)
                if is_training and made.answer_text and not made.is_found:
                    bad_rows.leave_out(path, where, _not_there(made, question))
                else:
                    examples.append(made)
    if not examples:
        raise UserError(f"{path} must hold questions. Received: none.")
    return examples


def _not_there(made: QAExample, question: Question) -> str:
    """Says that an answer does not stand where it should."""
    start = question.places[0].start
    there = made.context[start : start + len(made.answer_text)]
    return (
        f"{json_fields.short(made.answer_text)} must stand at character "
        f"{start} of the context. Received: {json_fields.short(there)}."
    )


def unanswered_example(eid: int, question: str, context: str) -> QAExample:
    """Makes an example of which no answer is known.

    Args:
      eid: its number, and its name.
      question: its text.
      context: the text with the answer.

    Raises:
      BadRowError: if one of them is empty.
    """
    text = json_fields.text({"context": context}, "context")
    asked = json_fields.text({"question": question}, "question")
    return example(eid, Context(text), Question(str(eid), asked, (), ()))


def squad_paragraphs(path: pathlib.Path) -> Iterator[Paragraph]:
    """Yields the paragraphs of a file of SQuAD 1.1 or 2.0.

    Raises:
      UserError: if it is none.
    """
    try:
        whole = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} must be JSON. Received: {error}.") from error
    try:
        for i, article in enumerate(json_fields.items(whole, "data"), start=1):
            paragraphs = json_fields.items(article, "paragraphs")
            for j, content in enumerate(paragraphs, start=1):
                yield Paragraph(f"article {i}, paragraph {j}", content)
    except BadRowError as error:
        raise UserError(
            f"{path} must be in the format of SQuAD: data, a list of articles "
            f"that have paragraphs. {error}"
        ) from error


def squad_question(content: Json) -> Question:
    """Reads a question of SQuAD.

    Raises:
      BadRowError: saying what is wrong.
    """
    places = [
        Answer(
            json_fields.text(answer, "text"),
            json_fields.integer(answer, "answer_start"),
        )
        for answer in json_fields.items(content, "answers", is_optional=True)
    ]
    return Question(
        qas_id=json_fields.identity(content, "id"),
        text=json_fields.text(content, "question"),
        answers=tuple(answer.text for answer in places),
        places=tuple(places),
        is_impossible=json_fields.flag(content, "is_impossible"),
    )


def mrqa_paragraphs(
    path: pathlib.Path, bad_rows: BadRows
) -> Iterator[Paragraph]:
    """Yields the paragraphs of a file of MRQA's shared task of 2019.

    Raises:
      UserError: if a line is none.
    """
    for line in read_lines(path):
        if line.text is not None and not line.text.strip():
            continue
        content: Json = {"header": None}
        with bad_rows.at(path, line.number):
            content = parse_json(line.text)
        if not (isinstance(content, dict) and "header" in content):
            yield Paragraph(f"line {line.number}", content)


def mrqa_question(content: Json) -> Question:
    """Reads a question of MRQA.

    Raises:
      BadRowError: saying what is wrong.
    """
    found = json_fields.items(content, "detected_answers", is_optional=True)
    answers = json_fields.items(content, "answers", is_optional=True)
    return Question(
        qas_id=json_fields.identity(content, "qid"),
        text=json_fields.text(content, "question"),
        answers=tuple(
            json_fields.text({"answers": answer}, "answers")
            for answer in answers
        ),
        places=tuple(_detected(answer) for answer in found),
    )


def _detected(content: Json) -> Answer:
    """Returns an answer of MRQA, where it first stands."""
    spans = json_fields.items(content, "char_spans")
    first = spans[0] if spans else None
    if not isinstance(first, list) or not first:
        raise BadRowError(
            "`char_spans` must be a list of pairs of numbers. Received: "
            f"{json_fields.short(spans)}."
        )
    start = json_fields.integer({"char_spans": first[0]}, "char_spans")
    return Answer(json_fields.text(content, "text"), start)


def _check_name(name: str, names: set[str]) -> None:
    """Refuses a name that another question has, and keeps it."""
    if name in names:
        raise BadRowError(
            "Every question must have a name of its own, by which it is "
            f"answered. Received: {name} for the second time."
        )
    names.add(name)
