"""Questions and contexts: tables, SQuAD's JSON, MRQA's JSON lines.

Source: the original's finetune/qa/qa_tasks.py. Differs: errors in a question
name its place; the original ends the run, or leaves the question out.
"""

import bisect
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import tables
from electra_tf.data.tables import JSON_LINES, BadRowError, BadRows, Row
from electra_tf.finetune import sources
from electra_tf.finetune.examples import QAExample
from electra_tf.finetune.sources import Source
from electra_tf.util.errors import UserError, shorten_repr

SQUAD = ".json"
"""The ending of files in the format of SQuAD."""
SPACES = " \t\r\n\u202f"
"""What separates words. As in the original, other white space of Unicode is
part of a word."""

_WORD = re.compile(f"[^{SPACES}]+")


class Context:
    """A text and its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = tuple(_WORD.findall(text))
        self._starts = [match.start() for match in _WORD.finditer(text)]

    def find(
        self, answer: str, start: int
    ) -> tuple[int, int, int, int | None] | None:
        """Returns first and last word of an answer, and characters in them.

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
            return first, last, 0, None
        begin, end = min(spans, key=lambda span: abs(span[0] - start))
        first, last = self._word_at(begin), self._word_at(end - 1)
        return (
            first,
            last,
            begin - self._starts[first],
            end - self._starts[last],
        )

    def _word_at(self, character: int) -> int:
        """Returns the number of the last word that begins by a character."""
        return bisect.bisect(self._starts, character) - 1


class Question(NamedTuple):
    """A question; `located` are answers with the characters they begin at."""

    context: Context
    qas_id: str
    text: str
    answers: tuple[str, ...] = ()
    located: tuple[tuple[str, int], ...] = ()
    is_impossible: bool = False


def make_example(eid: int, question: Question) -> QAExample:
    """Makes an example; its answer to learn is the first that is located."""
    context = question.context
    for text, start in question.located:
        if not 0 <= start <= len(context.text) - len(text):
            raise BadRowError(
                f"{shorten_repr(text)} at {start} is outside of the context."
            )
    text, place = "", None
    if question.located and not question.is_impossible:
        text, start = question.located[0]
        place = context.find(text, start)
    first, last, begin, end = place or (None, None, 0, None)
    return QAExample(
        eid=eid,
        qas_id=question.qas_id,
        question=question.text,
        context=context.text,
        words=context.words,
        answers=question.answers,
        answer_text=text,
        first_word=first,
        last_word=last,
        answer_start=begin,
        answer_end=end,
        is_impossible=question.is_impossible,
    )


def read_questions(
    source: Source,
    columns: ColumnsConfig,
    bad_rows: BadRows,
    *,
    is_training: bool,
    needs_answers: bool,
    has_unanswerable: bool,
) -> list[QAExample]:
    """Reads the questions of a split, in any of the formats."""
    path, is_table = source.path, False
    if source.ending == SQUAD:
        paragraphs = _squad_paragraphs(source)
        questions = _of_paragraphs(
            paragraphs, _squad_question, source, bad_rows
        )
    else:
        rows, is_mrqa = [], False
        if source.ending in JSON_LINES:
            rows = tables.read_rows(path)
            first = next((row for row in rows if not row.problem), {})
            is_mrqa = bool({"header", "qas"} & {*first})
        if is_mrqa:
            rows = [row for row in rows if "header" not in row]
            questions = _of_paragraphs(rows, _mrqa_question, source, bad_rows)
        else:
            is_table = True
            questions = _of_table(source, columns, needs_answers)
    examples, names = [], set()
    for place, parse in questions:
        with bad_rows.at(path, place):
            question = parse()
            if not has_unanswerable:
                question = question._replace(is_impossible=False)
            usable = question.located if is_training else question.answers
            if needs_answers and not (usable or question.is_impossible):
                problem = (
                    f"No answer that is in the context: {question.answers}."
                )
                raise BadRowError(problem)
            if question.qas_id in names and not is_training:
                raise BadRowError(f"The id {question.qas_id} is there twice.")
            names.add(question.qas_id)
            example = make_example(len(examples), question)
            if is_training and example.answer_text and not example.is_found:
                text, start = question.located[0]
                problem = (
                    f"{shorten_repr(text)} is not at {start} in the context."
                )
                if is_table:
                    raise BadRowError(problem)
                bad_rows.skip_row(path, place, problem)
                continue
            examples.append(example)
    has_answers = any(example.answers for example in examples)
    if is_training and examples and not has_answers:
        raise UserError(f"{source} has no answers to learn.")
    if is_table and has_unanswerable and has_answers:
        examples = [
            dataclasses.replace(x, is_impossible=not x.answers)
            for x in examples
        ]
    return examples


_Questions = Iterator[tuple[int | str, Callable[[], Question]]]
"""Places of questions, and what parses them."""


def _of_paragraphs(
    paragraphs: Iterable[Row],
    parse: Callable[[Context, Row], Question],
    source: Source,
    bad_rows: BadRows,
) -> _Questions:
    """Yields the questions of contexts."""
    for row in paragraphs:
        context, questions = Context(""), []
        with bad_rows.at(source.path, row.place):
            context = Context(row.text("context"))
            questions = row.value("qas", list)
        where = tables.describe_place(row.place)
        for number, one in enumerate(questions, start=1):
            question = tables.json_row(one, 0)
            name = question.get("qid") or question.get("id") or number
            yield (
                f"{where}, question {name}",
                functools.partial(parse, context, question),
            )


def _squad_paragraphs(source: Source) -> Iterator[Row]:
    """Yields the paragraphs of a file of SQuAD 1.1 or 2.0."""
    path = source.path
    try:
        whole = json.loads("".join(tables.read_lines(path)))
        for i, article in enumerate(whole["data"], start=1):
            for j, paragraph in enumerate(article["paragraphs"], start=1):
                yield tables.json_row(paragraph, f"article {i}, paragraph {j}")
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not in the format of SQuAD: {error!r}"
        ) from error


def _squad_question(context: Context, row: Row) -> Question:
    answers = [tables.json_row(x, 0) for x in row.value("answers", list, [])]
    located = [(x.text("text"), x.value("answer_start", int)) for x in answers]
    return Question(
        context,
        qas_id=str(row.value("id", str | int)),
        text=row.text("question"),
        answers=tuple(text for text, _ in located),
        located=tuple(located),
        is_impossible=row.value("is_impossible", bool, False),
    )


def _mrqa_question(context: Context, row: Row) -> Question:
    """Parses a question; detected answers count at their first position."""
    located = []
    for answer in row.value("detected_answers", list, []):
        answer = tables.json_row(answer, 0)
        spans = answer.value("char_spans", list)
        try:
            start = spans[0][0]
        except (IndexError, TypeError) as error:
            raise BadRowError(f"'char_spans' is {spans}.") from error
        start = Row({"char_spans": start}).value("char_spans", int)
        located.append((answer.text("text"), start))
    answers = row.texts("answers") if row.get("answers") else ()
    return Question(
        context,
        qas_id=str(row.value("qid", str | int)),
        text=row.text("question"),
        answers=answers,
        located=tuple(located),
    )


def _of_table(
    source: Source, columns: ColumnsConfig, needs_answers: bool
) -> _Questions:
    """Yields the questions of a table, one per row."""
    optional = (columns.answer_column, columns.answer_start_column, "id")
    required = (columns.question_column, columns.context_column)
    if needs_answers:  # a cell may be empty
        required += (columns.answer_column,)
    rows = sources.read(source, columns, required, optional)
    for number, row in enumerate(rows):

        def parse(number: int = number, row: Row = row) -> Question:
            question = row.text(columns.question_column)
            context = Context(row.text(columns.context_column))
            answers = _answers(row, columns.answer_column)
            starts = row.value(columns.answer_start_column, default=None)
            return Question(
                context,
                qas_id=row.label("id") or str(number),
                text=question,
                answers=answers,
                located=_located(answers, starts, context.text),
                is_impossible=needs_answers and not answers,
            )

        yield row.place, parse


def _answers(row: Row, column: str) -> tuple[str, ...]:
    """Returns the gold answers of a row; empty if it has none."""
    value = row.value(column, default=None)
    if value is None or value == [] or not str(value).strip():
        return ()
    if isinstance(value, list):
        return row.texts(column)
    return (str(row.value(column, str | int)),)


def _located(
    answers: tuple[str, ...], starts: object, context: str
) -> tuple[tuple[str, int], ...]:
    """Returns answers at the given characters, or where they first stand."""
    if starts is not None and str(starts).strip():
        starts = starts if isinstance(starts, list) else [starts]
        is_number = [re.fullmatch(r"\d{1,18}", str(x)) for x in starts]
        if len(starts) != len(answers) or not all(is_number):
            raise BadRowError(f"{answers} begin at {starts}.")
        return tuple(zip(answers, map(int, starts), strict=True))
    located = []
    for answer in answers:
        pattern = rf"(?<![^\W_]){re.escape(answer)}(?![^\W_])"
        alone = re.search(pattern, context)
        start = alone.start() if alone else context.find(answer)
        if start >= 0:
            located.append((answer, start))
    return tuple(located)
