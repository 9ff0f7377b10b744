"""Question answering: SQuAD, the tasks of MRQA's shared task of 2019, tables.

Source: the original's finetune/qa/qa_tasks.py. Differs: naturalqs has the
length and the epochs of the others; a test split is answered as well; an error
names the question's place.
"""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError
from electra_tf.finetune.preprocessing import QAExample, Row
from electra_tf.finetune.qa import qa_files
from electra_tf.finetune.qa.qa_heads import QAHead
from electra_tf.finetune.qa.qa_rows import rows_of
from electra_tf.finetune.qa.qa_scorer import QAScorer
from electra_tf.finetune.scorer import Answers, Metrics, Outputs
from electra_tf.finetune.task import Preset, Source, Task
from electra_tf.util.errors import UserError

Examples = Sequence[QAExample]

_SQUAD2_METRICS = {"f1": "best_f1", "exact_match": "best_exact"}


class QATask(Task):
    """Answers that are spans of a context."""

    KIND: ClassVar[str] = "question answering"
    DEFAULT_LENGTH: ClassVar[int] = 512
    DEFAULT_EPOCHS: ClassVar[float] = 2.0
    FILES_SUFFIX: ClassVar[str] = "qa"
    ENDINGS: ClassVar[tuple[str, ...]] = (
        *tables.JSON_LINES,
        ".csv",
        ".tsv",
        qa_files.SQUAD,
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **options)
        self.qa = self.config.qa.fitted(self.max_seq_length)
        if self.columns.has_unanswerable:
            default = self.qa.threshold(self.config.task.head)
            self.threshold = self.metadata.get("threshold", default)

    @property
    def threshold_metric(self) -> str:
        is_given = self.qa.qa_na_threshold is not None
        return "" if is_given else f"{self.main_metric}_thresh"

    def describe(self) -> dict[str, Any]:
        has_unanswerable = self.columns.has_unanswerable
        return super().describe() | {"has_unanswerable": has_unanswerable}

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.columns.question_column, self.columns.context_column

    def make_example(self, eid: int, inputs: Sequence[str]) -> QAExample:
        question, context = inputs
        return qa_files.make_example(eid, question, qa_files.Context(context))

    def texts_of(self, example: QAExample) -> tuple[str, ...]:
        return (example.context,)

    def read_examples(self, split: str, source: Source) -> list[QAExample]:
        """Reads the questions of a split, in any of the formats."""
        columns, is_training = self.columns, split == "train"
        needs_answers = split not in self.test_splits
        may_be_blank = columns.has_unanswerable
        path, rows = source.path, qa_files.read_json(source)
        if is_table := rows is None:
            answer = (columns.answer_column,)
            required = (columns.question_column, columns.context_column)
            required += answer * needs_answers  # a cell may be empty
            optional = (*answer, columns.answer_start_column, "id")
            rows = source.read(columns, required, optional)
        else:
            columns = ColumnsConfig()
        context_of = functools.lru_cache(qa_files.Context)
        examples, ids = [], set()
        for number, row in enumerate(rows):
            with self.bad_rows.at(path, row.place):
                answers, located = qa_files.answers_of(row, columns)
                is_impossible = may_be_blank and needs_answers and not answers
                example = qa_files.make_example(
                    len(examples),
                    row.text(columns.question_column),
                    context_of(row.text(columns.context_column)),
                    qas_id=row.label("id") or str(number),
                    answers=answers,
                    located=located,
                    is_impossible=is_impossible,
                )
                usable = example.answer_text if is_training else answers
                if needs_answers and not (usable or is_impossible):
                    raise BadRowError(f"{answers} is not in the context.")
                if example.qas_id in ids and not is_training:
                    raise BadRowError(f"Two ids are {example.qas_id}.")
                ids.add(example.qas_id)
                if is_training and example.answer_text and not example.is_found:
                    text = f"{example.answer_text!r:.60}"
                    problem = f"{text} is elsewhere in the context."
                    if is_table:
                        raise BadRowError(problem)
                    self.bad_rows.skip_row(path, row.place, problem)
                    continue
                examples.append(example)
        has_answers = any(example.answers for example in examples)
        if is_training and examples and not has_answers:
            raise UserError(f"{source} has no answers to learn.")
        if may_be_blank and has_answers:  # so that blanks mean none
            examples = [
                dataclasses.replace(x, is_impossible=not x.answers)
                for x in examples
            ]
        return examples

    def featurize(
        self, examples: Examples, *, is_training: bool
    ) -> Iterator[Row]:
        return rows_of(
            examples,
            self.tokenizer,
            self.qa,
            self.max_seq_length,
            is_training=is_training,
        )

    def head(self) -> QAHead:
        return QAHead(self.name, self.config.task.head, self.qa)

    @property
    def main_metric(self) -> str:
        metric = self.columns.main_metric or "f1"
        is_squad2 = self.columns.has_unanswerable
        return _SQUAD2_METRICS[metric] if is_squad2 else metric

    @property
    def scorer(self) -> QAScorer:
        """The search for answers; the threshold may change with the trial."""
        return QAScorer(self.qa, self.tokenizer, self.threshold)

    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        return self.scorer.score(outputs, examples)

    def answers(self, outputs: Outputs, examples: Examples) -> Answers:
        return self.scorer.answers(outputs, examples)

    def is_constant(self, outputs: Outputs) -> bool:
        return self.scorer.is_constant(outputs)

    def labels_of(self, example: QAExample) -> tuple[tuple[str, ...]]:
        return (example.answers,)

    def output_files(self, split: str, answers: Answers) -> dict[str, str]:
        """Formats answers for the official scorers, and their figures."""
        name = self.name if split in self.dev_splits else f"{self.name}_{split}"
        files: dict[str, dict[str, Any]] = {
            "": {x["qas_id"]: x["prediction"] for x in answers},
            "_preds": {
                x["qas_id"]: x["nbest"][0]["text"] if x["nbest"] else ""
                for x in answers
            },
            "_nbest": {x["qas_id"]: x["nbest"] for x in answers},
        }
        if self.columns.has_unanswerable:
            odds = {x["qas_id"]: x["null_odds"] for x in answers}
            files["_null_odds"] = odds
        if all(x["label"] or x["is_impossible"] for x in answers):
            files["_eval"] = self.scorer.metrics(answers)
        dumps = functools.partial(json.dumps, ensure_ascii=False, indent=1)
        return {f"{name}{k}.json": f"{dumps(x)}\n" for k, x in files.items()}


_SQUAD = Preset(kind=QATask, ending=".json")
_SQUAD_2 = dataclasses.replace(_SQUAD, columns={"has_unanswerable": True})
_MRQA = Preset(kind=QATask, ending=".jsonl")

TASKS: Mapping[str, Preset] = {
    # SQuAD 2.0, many of whose questions have no answer, and 1.1.
    "squad": _SQUAD_2,
    "squadv1": _SQUAD,
    "newsqa": _MRQA,
    "naturalqs": _MRQA,
    "triviaqa": _MRQA,
    "searchqa": _MRQA,
}
