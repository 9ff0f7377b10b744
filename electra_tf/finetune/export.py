"""Exports a trained model as SavedModels that run without electra_tf.

    <directory>/{text,ids}/1   of strings and of ids, `serving/saved_models.py`
    <directory>/labels.txt     a line for each label, in their order

docs/serving.md lists the inputs and outputs of the signatures by kind of task.
Outputs of several models are the means of probabilities, values or logits.
"""

import abc
from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf
from etils import epath

from electra_tf.finetune.classification.classification_tasks import (
    RegressionTask,
)
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.predictor import Predictor
from electra_tf.finetune.preprocessing import Batch
from electra_tf.finetune.qa.qa_tasks import QATask
from electra_tf.finetune.qa.served_answers import AnswerFinder
from electra_tf.finetune.tagging.spans import written_tags
from electra_tf.finetune.tagging.tagging_tasks import TaggingTask
from electra_tf.finetune.task import Task
from electra_tf.model import tensor_ops
from electra_tf.model.graph_tokenization import pack_rows
from electra_tf.serving import saved_models
from electra_tf.serving.saved_models import Outputs
from electra_tf.util import files
from electra_tf.util.errors import UserError

_WHITE_SPACE = r"[\p{Z}\x09-\x0d\x1c-\x20\x{85}]+"  # as in Python's split


def export(predictor: Predictor, directory: epath.Path) -> list[epath.Path]:
    """Writes a model as two SavedModels."""
    served, labels = served_model(predictor), predictor.task.labels
    paths = saved_models.export(
        directory,
        {"serving_default": served.answer_texts},
        {"serving_default": served.answer},
        text_names=served.TEXT_NAMES[: len(predictor.task.input_names)],
        assets=served.tokenizer.assets,
        layers=[*(x.encoder for x in served.models), *served.heads],
    )
    if labels:
        lines = "".join(f"{label}\n" for label in labels)
        files.atomic_write_text(directory / "labels.txt", lines)
    return paths


def served_model(predictor: Predictor) -> "ServedModel":
    return _KINDS[predictor.task.KIND](predictor.task, predictor.models)


class ServedModel(abc.ABC):
    """One or several models that answer rows of ids and texts."""

    TEXT_NAMES: ClassVar[tuple[str, ...]] = ("text", "text_b")

    def __init__(self, task: Task, models: Sequence[FinetuningModel]) -> None:
        self.task = task
        self.models = models
        self.heads = [model.heads[task.name] for model in models]
        self.tokenizer = task.tokenizer.in_graph

    @abc.abstractmethod
    def answer(self, batch: Batch) -> Outputs:
        """Answers rows of ids."""

    def answer_texts(self, *texts: tf.Tensor) -> Outputs:
        """Answers texts, or pairs of texts, string [B] each."""
        return self.answer(self.rows(*map(self.tokenizer.tokenize, texts)))

    def outputs(self, batch: Batch) -> list[Outputs]:
        """Returns what the head of each model returns."""
        return [model.outputs(self.task.name, batch) for model in self.models]

    def probabilities(self, batch: Batch) -> tf.Tensor:
        """Returns the probability of each label, float32 [..., C]."""
        return _mean([tf.nn.softmax(x["logits"]) for x in self.outputs(batch)])

    def rows(
        self, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None
    ) -> Batch:
        """Makes rows of tokens, padded to the longest."""
        return pack_rows(
            first,
            second,
            self.task.tokenizer.vocabulary,
            self.task.max_seq_length,
            is_padded=False,
        )


class _Classifier(ServedModel):
    def answer(self, batch: Batch) -> Outputs:
        probabilities = self.probabilities(batch)
        return {
            "prediction": tf.gather(
                self.task.labels, tf.argmax(probabilities, -1)
            ),
            "probabilities": probabilities,
        }


class _Regressor(ServedModel):
    task: RegressionTask

    def answer(self, batch: Batch) -> Outputs:
        low, high = self.task.value_range
        scaled = _mean([x["predictions"] for x in self.outputs(batch)])
        values = low + scaled * (high - low)
        return {"prediction": tf.clip_by_value(values, low, high)}


class _Tagger(ServedModel):
    task: TaggingTask

    def answer(self, batch: Batch) -> Outputs:
        is_real = tf.expand_dims(batch["input_mask"] > 0, -1)
        probabilities = [
            tf.nn.softmax(head.dense(model.states(batch, None).sequence_output))
            for model, head in zip(self.models, self.heads, strict=True)
        ]
        return {"probabilities": tf.where(is_real, _mean(probabilities), 0.0)}

    def answer_texts(self, text: tf.Tensor) -> Outputs:
        text = tf.strings.regex_replace(text, _WHITE_SPACE, " ")
        words = tf.strings.split(text)  # [B, (words)]
        pieces = self._pieces(words.values)  # [all words, (pieces)]
        tokens = words.with_values(pieces).merge_dims(1, 2)  # [B, (tokens)]
        batch = self.rows(tokens)
        batch["segment_ids"] = batch["input_mask"]  # as in training
        sizes = pieces.row_lengths()
        before = tf.gather(tokens.row_starts(), words.value_rowids())
        starts = tf.cumsum(sizes, exclusive=True) - before
        fits = starts + sizes <= self.task.max_seq_length - 2
        places = words.with_values(tf.where(fits, 1 + starts, 0)).to_tensor()
        fits = words.with_values(fits).to_tensor()  # [B, words]
        batch["labeled_positions"] = tf.cast(places, tf.int32)
        probabilities = self.probabilities(batch)
        tags = written_tags(
            tf.argmax(probabilities, -1, tf.int32),
            fits,
            self.task.labels,
            self.task.encoding if self.task.is_spans else "BIOES",
            original="spans" in self.task.config.original_behaviour,
        )
        return {
            "words": words.to_tensor(),
            "prediction": tf.where(fits, tags, ""),
            "confidences": tf.where(
                fits, tf.reduce_max(probabilities, -1), 0.0
            ),
        }

    def _pieces(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the tokens of words, [UNK] for those that have none."""
        pieces = self.tokenizer.tokenize(words)
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknown = tf.fill(
            [tf.reduce_sum(is_empty)], self.task.tokenizer.vocabulary.unk_id
        )
        filler = tf.RaggedTensor.from_row_lengths(unknown, is_empty)
        pieces = tf.concat([pieces, filler], 1)
        return pieces[:, : self.task.max_seq_length - 2]


class _QuestionAnswerer(ServedModel):
    TEXT_NAMES = ("question", "context")
    task: QATask

    def __init__(self, task: QATask, models: Sequence[FinetuningModel]) -> None:
        super().__init__(task, models)
        if len(models) > 1 and self.heads[0].is_joint:
            raise UserError("Beams of several models cannot be averaged.")
        self.finder = AnswerFinder(
            task.tokenizer, task.config.qa, task.max_seq_length, self.answer
        )

    def answer(self, batch: Batch) -> Outputs:
        first, *others = outputs = self.outputs(batch)
        if not others:
            return first
        return {name: _mean([x[name] for x in outputs]) for name in first}

    def answer_texts(self, question: tf.Tensor, context: tf.Tensor) -> Outputs:
        outputs = self.finder(question, context)
        null_score = outputs.pop("null_score")
        if not self.task.columns.has_unanswerable:
            return outputs
        if not self.heads[0].answerable_classifier:
            score = outputs["score"]
            has_span = score > tensor_ops.ZERO_PROB_LOGIT
            null_score -= tf.where(has_span, score, 0.0)
        is_answered = null_score <= self.task.threshold
        answer = tf.where(is_answered, outputs["answer"], "")
        return {**outputs, "answer": answer, "null_score": null_score}


_KINDS = {
    "classification": _Classifier,
    "regression": _Regressor,
    "tagging": _Tagger,
    "question answering": _QuestionAnswerer,
}


def _mean(values: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n(values) / len(values)
