"""Question answering: SQuAD, the tasks of MRQA's shared task of 2019, tables.

Source: the original's finetune/qa/qa_tasks.py. Differs: naturalqs has the
length and the epochs of the others; a test split is answered as well; an error
names the question's place; the n best answers, which the original discards, are
kept; and the answer is the empty text, not "empty", if no span may be one.
"""

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from electra_tf.config.columns import ColumnsConfig, QAConfig
from electra_tf.data.tables import DELIMITERS, JSON_LINES, BadRowError
from electra_tf.finetune.preprocessing import QAExample, Row, TextTokenizer
from electra_tf.finetune.qa import qa_files
from electra_tf.finetune.qa.qa_heads import QAHead, find_spans, null_scores
from electra_tf.finetune.qa.qa_rows import WordTokens, rows_of, tokens_of_words
from electra_tf.finetune.scorer import (
    Answers,
    Metrics,
    Outputs,
    log_softmax,
    squad_v1,
    squad_v2,
)
from electra_tf.finetune.task import Preset, Source, Task
from electra_tf.util import console
from electra_tf.util.errors import UserError

Examples = Sequence[QAExample]

_DEGENERATE_RANGE = 1e-3  # of logits
_NO_ROW_NULL_SCORE = 1e6  # of a question without rows
_ROWS_AT_ONCE = 2048
_SQUAD2_METRICS = {"f1": "best_f1", "exact_match": "best_exact"}


@dataclasses.dataclass(frozen=True)
class QAScorer:
    """Exact match and F1 of SQuAD 1.1 and MRQA; of SQuAD 2.0 by a threshold."""

    config: QAConfig
    tokenizer: TextTokenizer
    threshold: float | None = None

    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        metrics = self.metrics(self.answers(outputs, examples, 1)).items()
        metrics = {k: v for k, v in metrics if not k.endswith("total")}
        return {**metrics, "loss": float(np.mean(outputs["loss"]))}

    def metrics(self, answers: Answers) -> Metrics:
        """Computes what the official scripts report, in percent."""
        golden = [x["label"] for x in answers]
        texts = [x["nbest"][0]["text"] if x["nbest"] else "" for x in answers]
        if self.threshold is None:
            return squad_v1(golden, texts)
        odds = [x["null_odds"] for x in answers]
        return squad_v2(golden, texts, odds, self.threshold)

    def answers(
        self, outputs: Outputs, examples: Examples, num_best: int | None = None
    ) -> Answers:
        """Returns the best spans of each question, and the odds of none."""
        num_best = num_best or self.config.n_best_size
        eids = np.array([example.eid for example in examples])
        numbers = np.searchsorted(eids, outputs["eid"])
        contexts = {x.context: x.words for x in examples}
        # Not an attribute, as threads may share a scorer.
        known = tokens_of_words(
            itertools.chain(*contexts.values()), self.tokenizer.in_graph
        )
        spans = self.find_spans(outputs)
        candidates: list[dict[str, list[float]]] = [{} for _ in examples]
        for number, order in _ranked(spans, numbers):
            for one in order:
                row, start, end, *scores = (x[one].item() for x in spans)
                first, last = outputs["word_numbers"][row, [start, end]]
                text = span_text(
                    examples[number].words[first - 1 : last],
                    outputs["input_ids"][row, start : end + 1],
                    outputs["numbers_in_word"][row, [start, end]],
                    known,
                    self.tokenizer.vocabulary.unk_id,
                )
                candidates[number].setdefault(text, scores)
                if len(candidates[number]) == num_best:
                    break
        null_odds = np.full(len(examples), _NO_ROW_NULL_SCORE)
        np.minimum.at(null_odds, numbers, null_scores(outputs))
        answers = []
        for example, best, odds in zip(
            examples, candidates, null_odds.tolist(), strict=True
        ):
            totals = [sum(scores) for scores in best.values()]
            if self.threshold is None:
                odds = None
            elif totals and "answerable_logit" not in outputs:
                odds -= totals[0]
            shares = np.exp(log_softmax(np.array(totals or [0.0]))).tolist()
            nbest = [
                {
                    "text": text,
                    "probability": share,
                    "start_logit": start,
                    "end_logit": end,
                }
                for (text, (start, end)), share in zip(
                    best.items(), shares, strict=False
                )
            ]
            is_answered = nbest and (odds is None or odds <= self.threshold)
            answers.append(
                {
                    "eid": example.eid,
                    "qas_id": example.qas_id,
                    "question": example.question,
                    "label": example.answers,
                    "is_impossible": example.is_impossible,
                    "prediction": nbest[0]["text"] if is_answered else "",
                    "null_odds": odds,
                    "nbest": nbest,
                }
            )
        return answers

    def is_constant(self, outputs: Outputs) -> bool:
        """Returns whether the best span is at one place of all contexts."""
        spans = self.find_spans(outputs)
        order = _ranked(spans, np.arange(len(outputs["eid"])))
        best = [numbers[0] for _, numbers in order]
        rows, starts, ends = (x[best] for x in spans[:3])
        first = np.argmax(outputs["word_numbers"] > 0, 1)[rows]
        places = np.unique(np.stack([starts - first, ends - first]), axis=1)
        logits = outputs.get("answerable_logit", np.zeros(1))
        is_one_place = places.shape[1] <= 1
        return is_one_place and float(np.ptp(logits)) < _DEGENERATE_RANGE

    def find_spans(self, outputs: Outputs) -> list[np.ndarray]:
        """Returns row, start, end, and scores of both, of spans [S]."""
        parts = []
        for first in range(0, len(outputs["eid"]), _ROWS_AT_ONCE):
            block = {
                name: x[first : first + _ROWS_AT_ONCE]
                for name, x in outputs.items()
            }
            in_context = block["word_numbers"] > 0
            can_start = in_context & (block["is_max_context"] > 0)
            starts, ends, start_scores, end_scores, is_valid = (
                np.asarray(x)
                for x in find_spans(block, in_context, can_start, self.config)
            )
            rows, i, j = np.nonzero(is_valid)
            part = (starts[rows, i], ends[rows, i, j])
            part += (start_scores[rows, i], end_scores[rows, i, j])
            parts.append((rows + first, *part))
        return [*map(np.concatenate, zip(*parts, strict=True))]


def span_text(
    words: Sequence[str],
    token_ids: Sequence[int],
    places: Sequence[int],
    known: Mapping[str, WordTokens],
    unknown_id: int,
) -> str:
    """Returns the text of a span; all words if it has no characters.

    As in the original also if a token is unknown, or if words are longer or
    shorter when normalized; but not in a script without spaces.
    """
    tokens = [known[word] for word in words]
    text = " ".join(words).encode()
    is_aligned = not sum(word.length_change for word in tokens)
    is_aligned &= unknown_id not in token_ids
    if is_aligned or any(word.is_unspaced for word in tokens):
        start, end = tokens[0].starts[places[0]], tokens[-1].ends[places[1]]
        end += len(text) - len(words[-1].encode())
        text = text[start:end] or text
    return text.decode(errors="ignore")


def _ranked(
    spans: Sequence[np.ndarray], groups: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Ranks the spans of each question, or of each row."""
    rows, _, _, start_scores, end_scores = spans
    if not len(rows):
        return
    of_spans = groups[rows]
    order = np.lexsort((-(start_scores + end_scores), of_spans))
    names, firsts = np.unique(of_spans[order], return_index=True)
    yield from zip(names.tolist(), np.split(order, firsts[1:]), strict=True)


class QATask(Task):
    """Answers that are spans of a context."""

    KIND: ClassVar[str] = "question answering"
    DEFAULT_LENGTH: ClassVar[int] = 512
    DEFAULT_EPOCHS: ClassVar[float] = 2.0
    FILES_SUFFIX: ClassVar[str] = "qa"
    ENDINGS: ClassVar[tuple[str, ...]] = (*JSON_LINES, *DELIMITERS, ".json")

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
        path, rows = source.path, qa_files.read_json(source, columns)
        if is_table := rows is None:
            answer = (columns.answer_column,)
            required = (columns.question_column, columns.context_column)
            required += answer * needs_answers  # a cell may be empty
            optional = (*answer, columns.answer_start_column, "id")
            rows = source.read(columns, required, optional)
        else:
            columns = ColumnsConfig()
        context_of = functools.lru_cache(qa_files.Context)
        examples, ids, num_converted = [], set(), 0
        for number, row in enumerate(rows):
            with self.bad_rows.at(path, row.place):
                answers, located = qa_files.answers_of(row, columns)
                context = context_of(row.text(columns.context_column))
                placed = [(text, context.place(text, i)) for text, i in located]
                num_converted += placed != located
                is_impossible = may_be_blank and needs_answers and not answers
                example = qa_files.make_example(
                    len(examples),
                    row.text(columns.question_column),
                    context,
                    qas_id=row.label("id") or str(number),
                    answers=answers,
                    located=placed,
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
        if num_converted:
            console.warn(
                f"{num_converted:,} questions of {path} have offsets in UTF-16 "
                "units, which were converted to characters."
            )
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
