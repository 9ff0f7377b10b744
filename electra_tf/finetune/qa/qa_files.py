"""Files of questions and contexts: tables, SQuAD's JSON, MRQA's JSON lines.

Source: the original's finetune/qa/qa_tasks.py. Differs: errors in a question
name its place; the original ends the run, or leaves the question out.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import tables
from electra_tf.data.tables import JSON_LINES, BadRowError, BadRows, Row
from electra_tf.finetune import sources
from electra_tf.finetune.examples import QAExample
from electra_tf.finetune.qa.qa_reading import (
    Answer,
    Context,
    Question,
    make_example,
)
from electra_tf.finetune.sources import Source
from electra_tf.util.errors import UserError, shorten_repr

SQUAD = ".json"
"""The ending of files in the format of SQuAD."""

_ID = "id"
_INTEGER = re.compile(r"\d{1,18}")


_Paragraph = tuple[int | str, Any]
"""The place in the file of a context and its questions, and their JSON."""


@dataclasses.dataclass
class QuestionReader:
    """Reads the questions of a split, in any of the formats."""

    source: Source
    columns: ColumnsConfig
    bad_rows: BadRows
    _: dataclasses.KW_ONLY
    is_training: bool
    needs_answers: bool
    has_unanswerable: bool

    def __post_init__(self) -> None:
        self._names: set[str] = set()

    def read(self) -> list[QAExample]:
        """Reads all questions."""
        examples = self._read()
        if self.is_training and examples:
            self._check_has_answers(examples)
        return examples

    def _read(self) -> list[QAExample]:
        source, path = self.source, self.source.path
        if source.ending == SQUAD:
            return self._examples(_squad_paragraphs(path), _squad_question)
        if source.ending in JSON_LINES:
            rows = tables.read_rows(path)
            first = next((row for row in rows if not row.problem), {})
            if {"header", "qas"} & {*first}:
                paragraphs = [(x.place, x) for x in rows if "header" not in x]
                return self._examples(paragraphs, _mrqa_question)
        return self._rows()

    def _check_has_answers(self, examples: list[QAExample]) -> None:
        """Refuses training rows none of which has an answer."""
        if not any(example.answers for example in examples):
            column = self.columns.answer_column
            raise UserError(
                f"{self.source} must hold a question with an answer to learn. "
                f"Received: {len(examples):,} questions without one. Add some, "
                "or set --answer_column if rows have their answers elsewhere "
                f"than in {column!r}."
            )

    def _examples(
        self,
        paragraphs: Iterable[_Paragraph],
        parse: Callable[[Row], Question],
    ) -> list[QAExample]:
        """Returns the examples of a file of paragraphs."""
        examples, path = [], self.source.path
        for place, content in paragraphs:
            context, questions = Context(""), []
            with self.bad_rows.at(path, place):
                context = Context(content.text("context"))
                questions = content.value("qas", list)
            where = tables.describe_place(place)
            for number, one in enumerate(questions, start=1):
                there = f"{where}, question {_name(one) or number}"
                with self.bad_rows.at(path, there):
                    question = self._checked(parse(tables.json_row(one, 0)))
                    made = make_example(len(examples), context, question)
                    if self._is_answer_missing(made):
                        problem = _mismatch_message(made, question)
                        self.bad_rows.skip_row(path, there, problem)
                    else:
                        examples.append(made)
        return examples

    def _checked(self, question: Question) -> Question:
        """Checks name and answers of a question from a file of paragraphs."""
        if not self.has_unanswerable:
            question = question._replace(is_impossible=False)
        there = (
            question.located_answers if self.is_training else question.answers
        )
        if self.needs_answers and not (there or question.is_impossible):
            way_out = ", or `is_impossible`" * self.has_unanswerable
            raise BadRowError(
                f"A question must have an answer{way_out}. Received: none."
            )
        if not self.is_training:
            self._check_name(question.qas_id)
        return question

    def _is_answer_missing(self, made: QAExample) -> bool:
        """Returns whether the answer to learn is not found."""
        return self.is_training and bool(made.answer_text) and not made.is_found

    def _check_name(self, name: str) -> None:
        """Checks that no question before had this name, and records it."""
        if name in self._names:
            raise BadRowError(
                f"Question ids must be unique. Received: id {name} twice."
            )
        self._names.add(name)

    def _rows(self) -> list[QAExample]:
        """Returns the examples of a table, with one question per row."""
        columns = self.columns
        others = (columns.answer_column, columns.answer_start_column, _ID)
        required = (columns.question_column, columns.context_column)
        if self.needs_answers:  # a cell may be empty
            required += (columns.answer_column,)
        examples = []
        rows = sources.read(self.source, columns, required, others)
        for eid, record in enumerate(rows):
            with self.bad_rows.at(self.source.path, record.place):
                made = self._row(eid, record)
                if not self.is_training:
                    self._check_name(made.qas_id)
                examples.append(made)
        if self.has_unanswerable and any(x.answers for x in examples):
            examples = [
                dataclasses.replace(x, is_impossible=not x.answers)
                for x in examples
            ]
        return examples

    def _row(self, eid: int, record: Row) -> QAExample:
        columns = self.columns
        question_text = record.text(columns.question_column)
        text = record.text(columns.context_column)
        answers = _answers(record, columns.answer_column)
        if self.needs_answers and not (answers or self.has_unanswerable):
            raise BadRowError(
                f"{columns.answer_column!r} must hold an answer. Received: "
                "nothing. Set --has_unanswerable if questions may have none."
            )
        located = _located_answers(
            record, columns.answer_start_column, text, answers
        )
        if self.is_training and answers and not located:
            raise BadRowError(
                "An answer must occur in its context. Received: "
                f"{answers[0]!r}."
            )
        name = record.label(_ID)
        question = Question(
            qas_id=name or str(eid),
            text=question_text,
            answers=answers,
            located_answers=located,
            is_impossible=self.needs_answers and not answers,
        )
        made = make_example(eid, Context(text), question)
        if self._is_answer_missing(made):
            raise BadRowError(
                f"{columns.answer_start_column!r} must be the character where "
                f"the answer begins. Received: {located[0].start} for "
                f"{answers[0]!r}."
            )
        return made


def _name(content: Any) -> str:  # noqa: ANN401 (any JSON)
    """Returns the name of a question, if it has one."""
    if not isinstance(content, dict):
        return ""
    return str(content.get("qid") or content.get("id") or "")


def _mismatch_message(made: QAExample, question: Question) -> str:
    """Describes the problem of an answer that is not at its position."""
    start = question.located_answers[0].start
    there = made.context[start : start + len(made.answer_text)]
    return (
        f"{shorten_repr(made.answer_text)} must be at character {start} of the "
        f"context. Received: {shorten_repr(there)}."
    )


def _squad_paragraphs(path: pathlib.Path) -> Iterator[_Paragraph]:
    """Yields the paragraphs of a file of SQuAD 1.1 or 2.0."""
    try:
        whole = json.loads("".join(tables.read_lines(path)))
    except json.JSONDecodeError as error:
        raise UserError(f"{path} must be JSON. Received: {error}.") from error
    try:
        articles = tables.json_row(whole, 0).value("data", list)
        for i, article in enumerate(articles, start=1):
            row = tables.json_row(article, i)
            for j, content in enumerate(row.value("paragraphs", list), 1):
                place = f"article {i}, paragraph {j}"
                yield place, tables.json_row(content, place)
    except BadRowError as error:
        raise UserError(
            f"{path} must be in the format of SQuAD: data, a list of articles "
            f"that have paragraphs. {error}"
        ) from error


def _squad_question(content: Row) -> Question:
    """Reads a question of SQuAD."""
    located = []
    for answer in content.value("answers", list, []):
        row = tables.json_row(answer, 0)
        located.append(Answer(row.text("text"), row.value("answer_start", int)))
    return Question(
        qas_id=str(content.value("id", str | int)),
        text=content.text("question"),
        answers=tuple(answer.text for answer in located),
        located_answers=tuple(located),
        is_impossible=content.value("is_impossible", bool, False),
    )


def _mrqa_question(content: Row) -> Question:
    """Reads a question of MRQA."""
    found = content.value("detected_answers", list, [])
    answers = content.value("answers", list, [])
    return Question(
        qas_id=str(content.value("qid", str | int)),
        text=content.text("question"),
        answers=tuple(Row({"answers": x}).text("answers") for x in answers),
        located_answers=tuple(
            _detected_answer(tables.json_row(answer, 0)) for answer in found
        ),
    )


def _detected_answer(content: Row) -> Answer:
    """Returns an answer of MRQA, at its first position."""
    spans = content.value("char_spans", list)
    first = spans[0] if spans else None
    if not isinstance(first, list) or not first:
        raise BadRowError(
            "'char_spans' must be a list of pairs of numbers. Received: "
            f"{shorten_repr(spans)}."
        )
    start = Row({"char_spans": first[0]}).value("char_spans", int)
    return Answer(content.text("text"), start)


def _answers(record: Row, column: str) -> tuple[str, ...]:
    """Returns the gold answers of a row; empty if it has none."""
    value = record.value(column, default=None)
    if value is None or value == [] or not str(value).strip():
        return ()
    if isinstance(value, list):
        return record.texts(column)
    return (str(record.value(column, str | int)),)


def _located_answers(
    record: Row, column: str, text: str, answers: tuple[str, ...]
) -> tuple[Answer, ...]:
    """Returns answers with positions: the row's, or else those found."""
    value = record.value(column, default=None)
    if value is None or not str(value).strip():
        found = ((answer, _first_place(answer, text)) for answer in answers)
        return tuple(Answer(*pair) for pair in found if pair[1] >= 0)
    starts = value if isinstance(value, list) else [value]
    if len(starts) != len(answers):
        raise BadRowError(
            f"{column!r} must have a number for each answer. Received: "
            f"{len(answers)} answers, {len(starts)} numbers."
        )
    numbers = [start for start in starts if _INTEGER.fullmatch(str(start))]
    if len(numbers) < len(starts):
        raise BadRowError(f"{column!r} is {starts}, no whole numbers.")
    return tuple(map(Answer, answers, map(int, numbers)))


def _first_place(answer: str, text: str) -> int:
    """Returns where an answer first stands, -1 if nowhere."""
    alone = re.search(rf"(?<![^\W_]){re.escape(answer)}(?![^\W_])", text)
    return alone.start() if alone else text.find(answer)
