"""A trained model as SavedModels that answer without electra_tf.

    <directory>/{text,ids}/1   of strings and of ids, `serving/saved_models.py`
    <directory>/labels.txt     a line for each label, in their order

The signature "serving_default", of B rows of L tokens, returns

  classification   prediction string [B], probabilities float32 [B, C]
  regression       prediction float32 [B]
  tagging of text  words string [B, W], their prediction string [B, W] and
                   confidences float32 [B, W]; "" and 0 past the last word, and
                   "" for words that are not in the first `max_seq_length`
                   tokens, which `electra_tf.predict` tags, too
  tagging of ids   probabilities float32 [B, L, C]; a word's are those of its
                   first token
"""

import abc
import pathlib

import tensorflow as tf

from electra_tf.finetune.classification.classification_tasks import (
    RegressionTask,
)
from electra_tf.finetune.features import Batch
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.predictor import Predictor
from electra_tf.finetune.task import Task
from electra_tf.model import tensor_ops
from electra_tf.model.graph_tokenization import pack_rows
from electra_tf.serving import saved_models
from electra_tf.serving.saved_models import Outputs, Signatures
from electra_tf.util import files
from electra_tf.util.errors import UserError

_WHITE_SPACE = r"[\p{Z}\x09-\x0d\x1c-\x20\x{85}]+"  # as of Python's split


def export(predictor: Predictor, directory: pathlib.Path) -> list[pathlib.Path]:
    """Writes a model as two SavedModels.

    Returns:
      The directory of each SavedModel.

    Raises:
      UserError: if it is an ensemble or answers questions, or if `directory`
        cannot be written to.
    """
    model = _model_of(predictor)
    is_pair = len(predictor.input_spec.names) == 2
    of_text = model.answer_pair if is_pair else model.answer_text
    signatures = Signatures(
        of_text={"serving_default": of_text},
        of_ids={"serving_default": model.answer},
        num_texts=1 + is_pair,
        assets=model.assets,
        layers=(model.model.encoder, model.head),
    )
    paths = saved_models.export(signatures, directory)
    if predictor.task.labels:
        lines = "".join(f"{label}\n" for label in predictor.task.labels)
        files.atomic_write_text(directory / "labels.txt", lines)
    return paths


class _Model(abc.ABC):
    """A model that answers rows of ids and texts.

    Args:
      task: of the model.
      model: with the head of the task.
    """

    def __init__(self, task: Task, model: FinetuningModel) -> None:
        self.task = task
        self.model = model
        self.head = model.heads[task.name]
        self.tokenizer = task.tokenizer.in_graph

    @property
    def assets(self) -> list[tf.Module]:
        """Resources of the tokenizer outside of its graph."""
        is_asset = isinstance(self.tokenizer, tf.Module)
        return [self.tokenizer] if is_asset else []

    @abc.abstractmethod
    def answer(self, batch: Batch) -> Outputs:
        """Answers rows of ids."""

    def answer_text(self, text: tf.Tensor) -> Outputs:
        """Answers texts, string [B]."""
        return self.answer(self.rows(self.tokenizer.tokenize(text)))

    def answer_pair(self, text: tf.Tensor, text_b: tf.Tensor) -> Outputs:
        """Answers pairs of texts, string [B] each."""
        tokens = map(self.tokenizer.tokenize, (text, text_b))
        return self.answer(self.rows(*tokens))

    def rows(
        self, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None
    ) -> Batch:
        """Makes rows of tokens, filled up to the longest."""
        vocabulary = self.task.tokenizer.vocabulary
        batch = pack_rows(first, second, vocabulary, self.task.max_seq_length)
        sizes = tf.reduce_sum(batch["input_mask"], 1)
        longest = tf.reduce_max(sizes)
        return {name: column[:, :longest] for name, column in batch.items()}


class _Classifier(_Model):
    def answer(self, batch: Batch) -> Outputs:
        logits = self.model.outputs(self.task.name, batch)["logits"]
        return {
            "prediction": tf.gather(self.task.labels, tf.argmax(logits, -1)),
            "probabilities": tf.nn.softmax(logits),
        }


class _Regressor(_Model):
    task: RegressionTask

    def answer(self, batch: Batch) -> Outputs:
        low, high = self.task.value_range
        scaled = self.model.outputs(self.task.name, batch)["predictions"]
        values = low + scaled * (high - low)
        return {"prediction": tf.clip_by_value(values, low, high)}


class _Tagger(_Model):
    def answer(self, batch: Batch) -> Outputs:
        logits = self.head.dense(self.model.states(batch, None).sequence_output)
        is_real = batch["input_mask"][..., tf.newaxis] > 0
        shares = tf.where(is_real, tf.nn.softmax(logits), 0.0)
        return {"probabilities": shares}

    def answer_text(self, text: tf.Tensor) -> Outputs:
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
        states = tensor_ops.gather_positions(
            self.model.states(batch, None).sequence_output,
            tf.cast(places, tf.int32),
        )
        shares = tf.nn.softmax(self.head.dense(states))  # [B, words, C]
        tags = tf.gather(self.task.labels, tf.argmax(shares, -1))
        return {
            "words": words.to_tensor(),
            "prediction": tf.where(fits, tags, ""),
            "confidences": tf.where(fits, tf.reduce_max(shares, -1), 0.0),
        }

    def _pieces(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the tokens of words, [UNK] of those that have none."""
        pieces = self.tokenizer.tokenize(words)
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknown = tf.fill(
            [tf.reduce_sum(is_empty)], self.task.tokenizer.vocabulary.unk_id
        )
        filler = tf.RaggedTensor.from_row_lengths(unknown, is_empty)
        pieces = tf.concat([pieces, filler], 1)
        return pieces[:, : self.task.max_seq_length - 2]


_KINDS = {
    "classification": _Classifier,
    "regression": _Regressor,
    "tagging": _Tagger,
}


def _model_of(predictor: Predictor) -> _Model:
    task = predictor.task
    if len(predictor.models) > 1:
        raise UserError(
            "A single model can be exported. Received: an ensemble of "
            f"{len(predictor.models)}. Export them one by one."
        )
    (model,) = predictor.models
    kind = _KINDS.get(task.KIND)
    if kind is None:
        raise UserError(
            "A model of classification, regression or tagging can be "
            f"exported. Received: {task.name}. Use electra_tf.predict."
        )
    return kind(task, model)
