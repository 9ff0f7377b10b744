"""Exports a trained model as SavedModels that run without electra_tf.

docs/serving.md lists the inputs and outputs of the signatures by kind of task.
"""

import abc
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
        layers=[served.model.encoder, served.head],
    )
    if labels:
        lines = "".join(f"{label}\n" for label in labels)
        files.atomic_write_text(directory / "labels.txt", lines)
    return paths


def served_model(predictor: Predictor) -> "ServedModel":
    return _KINDS[predictor.task.KIND](predictor.task, predictor.model)


class ServedModel(abc.ABC):
    """A model that answers rows of ids and texts."""

    TEXT_NAMES: ClassVar[tuple[str, ...]] = ("text", "text_b")

    def __init__(self, task: Task, model: FinetuningModel) -> None:
        self.task = task
        self.model = model
        self.head = model.heads[task.name]
        self.tokenizer = task.tokenizer.in_graph

    @abc.abstractmethod
    def answer(self, batch: Batch) -> Outputs:
        """Answers rows of ids."""

    def answer_texts(self, *texts: tf.Tensor) -> Outputs:
        """Answers texts, or pairs of texts, string [B] each."""
        return self.answer(self.rows(*map(self.tokenizer.tokenize, texts)))

    def outputs(self, batch: Batch) -> Outputs:
        """Computes the outputs of the head."""
        return self.model.outputs(self.task.name, batch)

    def probabilities(self, batch: Batch) -> tf.Tensor:
        """Computes the probability of each label, float32 [..., C]."""
        return tf.nn.softmax(self.outputs(batch)["logits"])

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
        values = low + self.outputs(batch)["predictions"] * (high - low)
        return {"prediction": tf.clip_by_value(values, low, high)}


class _Tagger(ServedModel):
    task: TaggingTask

    def answer(self, batch: Batch) -> Outputs:
        is_real = tf.expand_dims(batch["input_mask"] > 0, -1)
        tokens = self.model.states(batch, None).sequence_output
        probabilities = tf.nn.softmax(self.head.dense(tokens))  # [B, L, C]
        return {"probabilities": tf.where(is_real, probabilities, 0.0)}

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
            self.task.encoding,
            original=self.task.original_spans,
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

    def __init__(self, task: QATask, model: FinetuningModel) -> None:
        super().__init__(task, model)
        self.finder = AnswerFinder(
            task.tokenizer, task.qa, task.max_seq_length, self.answer
        )

    def answer(self, batch: Batch) -> Outputs:
        return self.outputs(batch)

    def answer_texts(self, question: tf.Tensor, context: tf.Tensor) -> Outputs:
        outputs = self.finder(question, context)
        null_score = outputs.pop("null_score")
        if not self.task.columns.has_unanswerable:
            return outputs
        if not self.head.answerable_classifier:
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
