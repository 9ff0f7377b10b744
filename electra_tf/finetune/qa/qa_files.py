"""Questions and contexts: tables, SQuAD's JSON, MRQA's JSON lines.

Source: the original's finetune/qa/qa_tasks.py. Differs: errors in a question
name its place; the original ends the run, or leaves the question out.
"""

import bisect
import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

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

    def find(self, answer: str, start: int) -> dict[str, int]:
        """Finds an answer in the words at its place: fields of a `QAExample`.

        Differs: all white space of Unicode is alike here; the original drops a
        question whose answer holds some that does not separate words.
        """
        first = self._word_at(start)
        last = self._word_at(start + len(answer) - 1)
        pattern = r"\s+".join(map(re.escape, answer.split()))
        if first < 0 or not pattern:
            return {}
        matches = re.compile(f"(?=({pattern}))", re.IGNORECASE).finditer(
            self.text,
            self._starts[first],
            self._starts[last] + len(self.words[last]),
        )
        spans = [match.span(1) for match in matches]
        if not spans:
            return {}
        begin, end = min(spans, key=lambda span: abs(span[0] - start))
        first, last = self._word_at(begin), self._word_at(end - 1)
        return {
            "first_word": first,
            "last_word": last,
            "answer_start": begin - self._starts[first],
            "answer_end": end - self._starts[last],
        }

    def _word_at(self, character: int) -> int:
        """Returns the number of the last word that begins by a character."""
        return bisect.bisect(self._starts, character) - 1


def make_example(
    eid: int,
    question: str,
    context: Context,
    *,
    qas_id: str = "",
    answers: Sequence[str] = (),
    located: Sequence[tuple[str, int]] = (),
    is_impossible: bool = False,
) -> QAExample:
    """Makes an example; its answer to learn is the first of `located`."""
    for text, start in located:
        if not 0 <= start <= len(context.text) - len(text):
            raise BadRowError(
                f"{shorten_repr(text)} at {start} is outside of the context."
            )
    return QAExample(
        eid=eid,
        qas_id=qas_id,
        question=question,
        context=context.text,
        words=context.words,
        answers=tuple(answers),
        answer_text=located[0][0] if located else "",
        is_impossible=is_impossible,
        **(context.find(*located[0]) if located else {}),
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
    path, paragraphs = source.path, _read_paragraphs(source)
    is_table = paragraphs is None
    if is_table:
        answer = (columns.answer_column,)
        required = (columns.question_column, columns.context_column)
        required += answer * needs_answers  # a cell may be empty
        optional = (*answer, columns.answer_start_column, "id")
        rows = source.read(columns, required, optional)
        questions = ((row.place, row, columns) for row in rows)
    else:
        questions = _of_paragraphs(paragraphs, path, bad_rows)
    parse = _parse_row if is_table else _parse_question
    examples, ids = [], set()
    for number, (place, *parts) in enumerate(questions):
        with bad_rows.at(path, place):
            example = parse(*parts)
            is_blank = is_table and needs_answers and not example.answers
            is_impossible = example.is_impossible or is_blank
            example = dataclasses.replace(
                example,
                eid=len(examples),
                qas_id=example.qas_id or str(number),
                is_impossible=is_impossible and has_unanswerable,
            )
            usable = example.answer_text if is_training else example.answers
            if needs_answers and not (usable or example.is_impossible):
                raise BadRowError(f"{example.answers} is not in the context.")
            if example.qas_id in ids and not is_training:
                raise BadRowError(f"The id {example.qas_id} is there twice.")
            ids.add(example.qas_id)
            if is_training and example.answer_text and not example.is_found:
                text = shorten_repr(example.answer_text)
                problem = f"{text} is elsewhere in the context."
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


def _read_paragraphs(source: Source) -> Iterable[Row] | None:
    """Reads the contexts of a file of SQuAD or MRQA; None for a table."""
    if source.ending == SQUAD:
        path = source.path
        try:
            whole = json.loads("".join(tables.read_lines(path)))
            return [
                tables.json_row(paragraph, f"article {i}, paragraph {j}")
                for i, article in enumerate(whole["data"], 1)
                for j, paragraph in enumerate(article["paragraphs"], 1)
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is not SQuAD: {error!r}") from error
    if source.ending in JSON_LINES:
        rows = list(tables.read_rows(source.path))
        if {"header", "qas"} & {*next(filter(None, rows), {})}:
            return [row for row in rows if "header" not in row]
    return None


def _of_paragraphs(
    paragraphs: Iterable[Row], path: pathlib.Path, bad_rows: BadRows
) -> Iterator[tuple[str, Row, Context]]:
    """Yields place, question and context."""
    for paragraph in paragraphs:
        with bad_rows.at(path, paragraph.place):
            context = Context(paragraph.text("context"))
            questions = paragraph.value("qas", list)
            where = tables.describe_place(paragraph.place)
            for number, question in enumerate(questions, 1):
                row = tables.json_row(question, 0)
                name = row.get("qid") or row.get("id") or number
                yield f"{where}, question {name}", row, context


def _parse_question(row: Row, context: Context) -> QAExample:
    """Parses a question of SQuAD or MRQA; the first position counts."""
    is_mrqa, located = "qid" in row, []
    for answer in row.value(
        "detected_answers" if is_mrqa else "answers", list, []
    ):
        answer = tables.json_row(answer, 0)
        if is_mrqa:
            ((start, *_), *_) = answer.value("char_spans", list)
        else:
            start = answer.value("answer_start", int)
        located.append((answer.text("text"), start))
    answers = [text for text, _ in located]
    if is_mrqa:
        answers = row.texts("answers") if row.get("answers") else ()
    return make_example(
        0,
        row.text("question"),
        context,
        qas_id=str(row.value("qid" if is_mrqa else "id", str | int)),
        answers=answers,
        located=located,
        is_impossible=row.value("is_impossible", bool, False),
    )


def _parse_row(row: Row, columns: ColumnsConfig) -> QAExample:
    """Parses a row of a table; the answers, if any, may have their starts."""
    question = row.text(columns.question_column)
    context = Context(row.text(columns.context_column))
    answers = row.value(columns.answer_column, default=None)
    if isinstance(answers, list):
        answers = row.texts(columns.answer_column) if answers else ()
    else:
        answers = [*filter(None, [row.label(columns.answer_column)])]
    starts = row.value(columns.answer_start_column, default=None)
    if isinstance(starts, str):
        starts = starts.split()
    if starts is None or starts == []:
        pairs = [(text, _find(text, context.text)) for text in answers]
        located = [(text, start) for text, start in pairs if start >= 0]
    else:
        starts = starts if isinstance(starts, list) else [starts]
        if len(starts) != len(answers):
            raise BadRowError(f"{answers} begin at {starts}.")
        located = list(zip(answers, map(int, starts), strict=True))
    return make_example(
        0,
        question,
        context,
        qas_id=row.label("id") or "",
        answers=answers,
        located=located,
    )


def _find(answer: str, context: str) -> int:
    """Returns where an answer first stands, rather not within a word."""
    pattern = rf"(?<![^\W_]){re.escape(answer)}(?![^\W_])"
    alone = re.search(pattern, context)
    return alone.start() if alone else context.find(answer)
