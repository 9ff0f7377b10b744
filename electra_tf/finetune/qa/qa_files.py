"""Questions and contexts: tables, SQuAD's JSON, MRQA's JSON lines.

Source: the original's finetune/qa/qa_tasks.py. Differs: errors in a question
name its place; the original ends the run, or leaves the question out.
"""

import bisect
import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import tables
from electra_tf.data.tables import JSON_LINES, BadRowError, BadRows, Row
from electra_tf.finetune.preprocessing import QAExample
from electra_tf.finetune.task import Source
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
    path = source.path
    paragraphs, parse = _find_paragraphs(source)
    is_table = paragraphs is None
    if is_table:
        optional = (columns.answer_column, columns.answer_start_column, "id")
        required = (columns.question_column, columns.context_column)
        if needs_answers:  # a cell may be empty
            required += (columns.answer_column,)
        rows = source.read(columns, required, optional)
        questions = ((row.place, row, None) for row in rows)
        parse = functools.partial(_table_question, columns=columns)
    else:
        questions = _of_paragraphs(paragraphs, path, bad_rows)
    examples, names = [], set()
    for number, (place, row, context) in enumerate(questions):
        with bad_rows.at(path, place):
            question = parse(row, context)
            is_blank = is_table and needs_answers and not question.answers
            is_impossible = question.is_impossible or is_blank
            question = question._replace(
                qas_id=question.qas_id or str(number),
                is_impossible=is_impossible and has_unanswerable,
            )
            usable = question.located if is_training else question.answers
            if needs_answers and not (usable or question.is_impossible):
                raise BadRowError(f"{question.answers} is not in the context.")
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


def _find_paragraphs(
    source: Source,
) -> tuple[Iterable[Row] | None, Callable[[Row, Context], Question]]:
    """Returns the contexts, None for a table, and what parses a question."""
    if source.ending == SQUAD:
        return _squad_paragraphs(source.path), _squad_question
    if source.ending in JSON_LINES:
        rows = list(tables.read_rows(source.path))
        if {"header", "qas"} & {*next(filter(None, rows), {})}:
            return [x for x in rows if "header" not in x], _mrqa_question
    return None, _table_question


def _of_paragraphs(
    paragraphs: Iterable[Row], path: pathlib.Path, bad_rows: BadRows
) -> Iterator[tuple[str, Row, Context]]:
    """Yields place, question and context."""
    for paragraph in paragraphs:
        context, questions = Context(""), []
        with bad_rows.at(path, paragraph.place):
            context = Context(paragraph.text("context"))
            questions = paragraph.value("qas", list)
        where = tables.describe_place(paragraph.place)
        for number, question in enumerate(questions, start=1):
            row = tables.json_row(question, 0)
            name = row.get("qid") or row.get("id") or number
            yield f"{where}, question {name}", row, context


def _squad_paragraphs(path: pathlib.Path) -> Iterator[Row]:
    """Yields the paragraphs of a file of SQuAD 1.1 or 2.0."""
    try:
        whole = json.loads("".join(tables.read_lines(path)))
        for i, article in enumerate(whole["data"], start=1):
            for j, paragraph in enumerate(article["paragraphs"], start=1):
                yield tables.json_row(paragraph, f"article {i}, paragraph {j}")
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not in the format of SQuAD: {error!r}"
        ) from error


def _squad_question(row: Row, context: Context) -> Question:
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


def _mrqa_question(row: Row, context: Context) -> Question:
    """Parses a question; detected answers count at their first position."""
    located = []
    for answer in row.value("detected_answers", list, []):
        answer = tables.json_row(answer, 0)
        match answer.value("char_spans", list):
            case [[int(start), *_], *_]:
                located.append((answer.text("text"), start))
            case spans:
                raise BadRowError(f"'char_spans' is {spans}.")
    return Question(
        context,
        qas_id=str(row.value("qid", str | int)),
        text=row.text("question"),
        answers=row.texts("answers") if row.get("answers") else (),
        located=tuple(located),
    )


def _table_question(
    row: Row, context: None, *, columns: ColumnsConfig
) -> Question:
    del context  # in the row
    question = row.text(columns.question_column)
    context = Context(row.text(columns.context_column))
    value, answers = row.value(columns.answer_column, default=None), ()
    if isinstance(value, list) and value:
        answers = row.texts(columns.answer_column)
    elif value not in (None, []) and str(value).strip():
        answers = (str(row.value(columns.answer_column, str | int)),)
    starts = row.value(columns.answer_start_column, default=None)
    return Question(
        context,
        qas_id=row.label("id") or "",
        text=question,
        answers=answers,
        located=_located(answers, starts, context.text),
    )


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
