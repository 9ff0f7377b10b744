"""Question answering on one's own texts."""

from typing import Any, ClassVar

from electra_tf.finetune.custom.custom_task import OwnTask
from electra_tf.finetune.qa import qa_reading
from electra_tf.finetune.qa.examples import QAExample
from electra_tf.finetune.qa.qa_reading import Answer, Context, Question
from electra_tf.finetune.qa.qa_scorer import QAScorer
from electra_tf.finetune.qa.qa_tasks import QATask
from electra_tf.finetune.readers import sources, tables
from electra_tf.finetune.readers.reading import (
    BadRowError,
    parse_json,
    read_lines,
)
from electra_tf.finetune.readers.records import Record
from electra_tf.finetune.readers.sources import Source

_SQUAD = ".json"
_ID = "id"
_METRICS = {"f1": "best_f1", "exact_match": "best_exact"}


class OwnQA(OwnTask, QATask):
    """Answers that are spans of a context.

    Rows have columns for question, context, answers and where they begin; or
    files are as SQuAD's and MRQA's.
    """

    ENDINGS: ClassVar[tuple[str, ...]] = (
        *tables.JSON_LINES,
        ".csv",
        ".tsv",
        _SQUAD,
    )

    @property
    def has_unanswerable(self) -> bool:
        return self.columns.has_unanswerable

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.columns.question_column, self.columns.context_column

    def text_of(self, example: QAExample) -> str:
        return example.context

    def get_scorer(self) -> QAScorer:
        scorer, metric = super().get_scorer(), self.columns.main_metric
        if metric:
            scorer.main_metric = (
                _METRICS[metric] if self.has_unanswerable else metric
            )
        return scorer

    def read_examples(self, split: str, source: Source) -> list[QAExample]:
        path = source.path
        if source.ending == _SQUAD:
            paragraphs = qa_reading.squad_paragraphs(path)
            parse = qa_reading.squad_question
            return self.read_file(split, path, paragraphs, parse)
        if source.ending in tables.JSON_LINES and _is_mrqa(source):
            paragraphs = qa_reading.mrqa_paragraphs(path, self.bad_rows)
            parse = qa_reading.mrqa_question
            return self.read_file(split, path, paragraphs, parse)
        return self._read_rows(split, source)

    def _read_rows(self, split: str, source: Source) -> list[QAExample]:
        columns, names = self.columns, set()
        needs_answers = split not in self.TEST_SPLITS
        others = (columns.answer_column, columns.answer_start_column, _ID)
        required = self.input_names
        if needs_answers and not self.has_unanswerable:
            required += (columns.answer_column,)
        examples = []
        records = sources.read(source, self.config, required, others)
        for eid, record in enumerate(records):
            with self.bad_rows.at(source.path, record.place):
                made = self._example(eid, record, split)
                if made.qas_id in names:
                    raise BadRowError(
                        "Every question must have an id of its own. Received: "
                        f"{made.qas_id} for the second time."
                    )
                names.add(made.qas_id)
                examples.append(made)
        return examples

    def _example(self, eid: int, record: Record, split: str) -> QAExample:
        question, text = map(record.text, self.input_names)
        context, answers = Context(text), self._answers(record)
        needs_answers = split not in self.TEST_SPLITS
        if needs_answers and not (answers or self.has_unanswerable):
            raise BadRowError(
                f"{self.columns.answer_column!r} must hold an answer. "
                "Received: nothing. Set --has_unanswerable if contexts may "
                "lack it."
            )
        places = self._places(record, text, answers)
        is_training = split == "train"
        if is_training and answers and not places:
            raise BadRowError(
                "An answer must stand in its context. Received: "
                f"{answers[0]!r}."
            )
        name = record.label(_ID) if record.has(_ID) else None
        made = qa_reading.example(
            eid,
            context,
            Question(
                qas_id=name or str(eid),
                text=question,
                answers=answers,
                places=places,
                is_impossible=needs_answers and not answers,
            ),
        )
        if is_training and answers and not made.is_found:
            raise BadRowError(
                f"{self.columns.answer_start_column!r} must be where the "
                f"answer begins. Received: {places[0].start} for "
                f"{answers[0]!r}."
            )
        return made

    def _answers(self, record: Record) -> tuple[str, ...]:
        """Returns the right texts, none where the row has none."""
        column = self.columns.answer_column
        value = record.value(column) if record.has(column) else None
        if value is None or value == [] or not str(value).strip():
            return ()
        return (value,) if isinstance(value, str) else record.texts(column)

    def _places(
        self, record: Record, text: str, answers: tuple[str, ...]
    ) -> tuple[Answer, ...]:
        """Returns where answers stand: as the row says, or where found."""
        column = self.columns.answer_start_column
        value = record.value(column) if record.has(column) else None
        if value is None or not str(value).strip():
            found = ((answer, text.find(answer)) for answer in answers)
            return tuple(Answer(*pair) for pair in found if pair[1] >= 0)
        starts = value if isinstance(value, list) else [value]
        if len(starts) != len(answers):
            raise BadRowError(
                f"{column!r} must have a number for each answer. Received: "
                f"{len(answers)} answers, {len(starts)} numbers."
            )
        numbers = [_integer(start, column) for start in starts]
        return tuple(map(Answer, answers, numbers))


def _integer(value: Any, column: str) -> int:  # noqa: ANN401 (any JSON)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and value.isdecimal()):
        raise BadRowError(
            f"{column!r} must be a whole number, from 0. Received: {value!r}."
        )
    return int(value)


def _is_mrqa(source: Source) -> bool:
    """Says whether the first line of a file is a header or context of MRQA."""
    first = read_lines(source.path)[0]
    try:
        content = parse_json(first.text)
    except BadRowError:  # which is told when the line is read
        return False
    return isinstance(content, dict) and bool({"header", "qas"} & {*content})


KINDS = {"qa": OwnQA}
