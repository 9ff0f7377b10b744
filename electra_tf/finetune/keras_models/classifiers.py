"""Keras models of a class or a value for texts, and of tags for words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from electra_tf.checkpoint.loading import format_of
from electra_tf.config.model import BertConfig
from electra_tf.finetune.classification.classification_tasks import (
    MULTI_LABEL,
    ClassificationHead,
    ClassificationTask,
    RegressionHead,
    RegressionTask,
)
from electra_tf.finetune.finetuned import Finetuned
from electra_tf.finetune.keras_models.base import Strings, Texts, columns_of
from electra_tf.finetune.keras_models.task_model import (
    BATCH_SIZE,
    WEIGHT,
    TaskModel,
)
from electra_tf.finetune.preprocessing import Batch, Row
from electra_tf.finetune.tagging.tagging_tasks import (
    COLUMNS,
    TaggingHead,
    TaggingTask,
    rows_of,
)
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import UserError

Sentences = Sequence[Sequence[str]]
"""Words of each sentence."""
Tags = Sequence[Sequence[str | int]]
"""A tag for each word of each sentence."""


class Labels:
    """The classes of a head: their numbers, and labels if there are any."""

    def __init__(self, count: int | None, labels: Sequence[str] = ()) -> None:
        self.labels = tuple(labels)
        self.count = len(self.labels) if count is None else int(count)
        self.names = np.array(self.labels or range(self.count))
        self._numbers = {label: i for i, label in enumerate(self.labels)}
        if self.labels and len(self._numbers) != self.count or self.count < 1:
            raise UserError(f"{self.count} classes, labels {self.labels}")

    def number(self, label: str | int) -> int:
        """Returns the number of a class, given by label or by number."""
        if isinstance(label, str):
            return self._numbers[label]
        # 1 may be the first label, "1", or the second class.
        if self._numbers.get(str(label), label) != label:
            raise UserError(f"Give labels as strings: {label} is ambiguous.")
        if label not in range(self.count):
            raise UserError(f"{label} is none of {self.count} classes.")
        return int(label)

    def mask(self, labels: Sequence[str]) -> np.ndarray:
        """Returns a set of labels as a mask, [C]."""
        if unknown := {*labels} - {*self.labels}:
            raise UserError(f"{unknown} are none of the labels {self.labels}.")
        return np.isin(self.labels, labels)


class TextModel(TaskModel):
    """A model of texts, or of pairs of them."""

    def rows(self, x: Texts, y: Sequence | None = None) -> Iterator[Row]:
        columns = columns_of(x)
        targets = [{}] * len(columns[0])
        if y is not None:
            values = self.targets(np.asarray(y, object).tolist())
            targets = [{self.TARGET: value} for value in values]
        rows = self.tokenizer.rows(*columns, length=self.max_seq_length)
        for eid, (row, target) in enumerate(zip(rows, targets, strict=True)):
            yield {"eid": eid, **row, **target}

    def predict(
        self,
        x: Texts | tf.data.Dataset,
        batch_size: int = BATCH_SIZE,
        **arguments: Any,
    ) -> np.ndarray:
        """Computes the outputs of each text; see the class."""
        if isinstance(x, tf.data.Dataset):
            return super().predict(x, **arguments)
        rows = sorted(self.rows(x), key=lambda row: len(row["input_ids"]))
        data = self._batches(rows, batch_size, True)
        order = np.argsort([row["eid"] for row in rows])
        return super().predict(data, **arguments)[order]

    def read_batches(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Tokenizes batches of strings, and passes on those of `dataset`.

        Batches are texts, (texts, labels) or (texts, labels, weights), where
        pairs are a tuple of two.
        """
        spec = data.element_spec
        if isinstance(spec[0] if isinstance(spec, tuple) else spec, dict):
            return data

        @tf.autograph.experimental.do_not_convert
        def convert(texts: Strings, *rest: tf.Tensor) -> Batch | tuple:
            pair = texts if isinstance(texts, tuple) else (texts,)
            inputs = self.preprocess(*pair)
            return (inputs, *rest) if rest else inputs

        data = data.map(convert, num_parallel_calls=tf.data.AUTOTUNE)
        return data.prefetch(tf.data.AUTOTUNE)


@keras.saving.register_keras_serializable("electra_tf")
def label_accuracy(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns the share of labels, [B], that logits [B, C] decide right."""
    hits = (y_pred > 0) == tf.cast(y_true, tf.bool)
    return tf.reduce_mean(tf.cast(hits, tf.float32), -1)


@keras.saving.register_keras_serializable("electra_tf")
class ElectraClassifier(TextModel):
    """Classifies texts, or pairs of them.

    Texts are a sequence of strings; pairs a sequence of tuples of two, or a
    tuple of two sequences. Labels are numbers, or strings of `labels`; with
    `is_multi_label` lists of such strings.

    Example:
      model = electra_tf.ElectraClassifier.from_checkpoint(
          path, labels=("bad", "good")
      )
      model.compile()
      model.fit(["a fine film", "a dull one"], ["good", "bad"], epochs=3)
      model.classify(["what a film"])  # ["good"]
      logits = model.predict(["what a film"])
      model.save("film.keras")

    In another process, import the class before `keras.saving.load_model`. The
    default loss is the cross-entropy of logits, the metric the accuracy; of
    several labels both are means over all of them.

    Args, beside those of `ElectraModel`:
      num_classes: C. Default: the number of labels.
      labels: labels in the order of the logits; empty for numbered classes.
      head: "electra" or "hugging_face", see `ClassificationHead`.
      is_multi_label: whether a text has any number of the `labels`, whose
        probabilities are the sigmoids of the logits.

    Returns:
      float32 [B, C], logits.
    """

    KIND = ClassificationTask.KIND
    TARGET = ClassificationTask.TARGET
    LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    METRICS = ("accuracy",)

    def __init__(
        self,
        config: BertConfig,
        vocabulary: Vocabulary,
        num_classes: int | None = None,
        *,
        labels: Sequence[str] = (),
        head: str = "electra",
        is_multi_label: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(config, vocabulary, **options)
        self.classes = Labels(num_classes, labels)
        self.labels, count = self.classes.labels, self.classes.count
        self.options = {"num_classes": count, "labels": [*labels], "head": head}
        self.is_multi_label = self.options["is_multi_label"] = is_multi_label
        if is_multi_label:
            self.LOSS = keras.losses.BinaryCrossentropy(from_logits=True)
            self.METRICS = (label_accuracy,)
        self._add(ClassificationHead, "classifier", count, head)

    @classmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        is_multi_label = found.metadata.get("problem_type") == MULTI_LABEL
        if found.head and found.num_outputs == 1 and not is_multi_label:
            raise UserError(
                f"{found.weights.origin} has one logit: use ElectraRegressor."
            )
        return found.head and {
            "num_classes": found.num_outputs,
            "labels": found.metadata["labels"],
            "head": found.head,
            "is_multi_label": is_multi_label,
        }

    def targets(self, y: list) -> list[int | np.ndarray]:
        classes = self.classes
        encode = classes.mask if self.is_multi_label else classes.number
        return [encode(label) for label in y]

    def classify(
        self, texts: Texts, batch_size: int = BATCH_SIZE
    ) -> list[str | int] | list[list[str]]:
        """Returns the most likely label, or number, of each text.

        With `is_multi_label`, the labels of more than 0.5.
        """
        logits = self.predict(texts, batch_size, verbose=0)
        chosen = logits > 0 if self.is_multi_label else logits.argmax(-1)
        return [self.classes.names[x].tolist() for x in chosen]


@keras.saving.register_keras_serializable("electra_tf")
class ElectraRegressor(TextModel):
    """Predicts a value of each text or pair; see `ElectraClassifier`.

    Example:
      model = electra_tf.ElectraRegressor.from_checkpoint(
          path, value_range=(1, 5)
      )
      model.compile()
      model.fit(["a fine film", "a dull one"], [4.5, 2], epochs=3)
      model.predict(["what a film"])  # [[3.9]]

    The default loss is the squared error, the metric "mae". Targets of a
    dataset and outputs are [B, 1].

    Args, beside those of `ElectraModel`:
      value_range: values of the head's outputs 0 and 1, ideally the least and
        the greatest target: training converges slowly to others.
      head: "electra" or "hugging_face", see `RegressionHead`.

    Returns:
      float32 [B, 1], in the units of `value_range`.
    """

    KIND = RegressionTask.KIND
    TARGET = RegressionTask.TARGET
    LOSS = keras.losses.MeanSquaredError()
    METRICS = ("mae",)

    def __init__(
        self,
        config: BertConfig,
        vocabulary: Vocabulary,
        value_range: tuple[float, float] = (0.0, 1.0),
        *,
        head: str = "electra",
        **options: Any,
    ) -> None:
        super().__init__(config, vocabulary, **options)
        low, high = self.value_range = tuple(map(float, value_range))
        self.options = {"value_range": [low, high], "head": head}
        self._add(RegressionHead, "regressor", 1, head)

    @classmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        if not found.head or found.num_outputs != 1:
            return None
        value_range = tuple(found.metadata.get("value_range") or (0.0, 1.0))
        return {"value_range": value_range, "head": found.head}

    def targets(self, y: list) -> list[float]:
        return np.asarray(y, float).reshape(-1).tolist()

    def outputs_of(self, head_outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        low, high = self.value_range
        return low + (high - low) * head_outputs["logits"]


@keras.saving.register_keras_serializable("electra_tf")
class TaggingLoss(keras.losses.Loss):
    """Sums the cross-entropy over the words of a row, averages over rows.

    So does `run_finetuning`. In a mean over the words of a batch, the weight of
    a row would depend on the other rows.
    """

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Returns L times the losses of words, [B, L]; Keras takes the mean."""
        tags = tf.cast(y_true, tf.int32)  # Keras may build with float32
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tags, y_pred)
        return losses * tf.cast(tf.shape(losses)[1], losses.dtype)


@keras.saving.register_keras_serializable("electra_tf")
class ElectraTagger(TaskModel):
    """Tags the words of sentences.

    A sentence is a sequence of words, its tags are strings of `labels` or
    numbers. Long sentences are read in windows; each word is scored once, in
    the window with more context around it.

    Example:
      model = electra_tf.ElectraTagger.from_checkpoint(
          path, labels=("O", "B-NP", "I-NP")
      )
      model.compile()
      sentences, tags = [["a", "fine", "film"]], [["B-NP", "I-NP", "I-NP"]]
      model.fit(sentences, tags, epochs=3)
      model.tag([["what", "a", "film"]])  # [["O", "B-NP", "I-NP"]]
      (logits,) = model.predict([["what", "a", "film"]])  # [3, C]

    The default loss is a `TaggingLoss`, the metric the accuracy over words.

    Args, beside those of `ElectraModel`:
      num_tags: C. Default: the number of labels.
      labels: labels in the order of the logits; empty for numbered tags.
      segment_id: segment of all tokens: 1 in the original, 0 in Hugging Face's
        models.

    Returns:
      float32 [B, L, C], logits of the words of each window.
    """

    DEFAULT_LENGTH = TaggingTask.DEFAULT_LENGTH
    KIND = TaggingTask.KIND
    OPTIONAL_INPUTS = COLUMNS
    SERVED = (*TaskModel.SERVED, "labeled_positions")
    TARGET = "labels"
    LOSS = TaggingLoss()
    METRICS = ("accuracy",)
    WEIGHS_METRICS = True

    def __init__(
        self,
        config: BertConfig,
        vocabulary: Vocabulary,
        num_tags: int | None = None,
        *,
        labels: Sequence[str] = (),
        segment_id: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(config, vocabulary, **options)
        self.classes = Labels(num_tags, labels)
        self.labels = self.classes.labels
        self.segment_id = segment_id
        self.options = {
            "num_tags": self.classes.count,
            "labels": [*labels],
            "segment_id": segment_id,
        }
        self._add(TaggingHead, "tagger", self.classes.count)

    @classmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        if {*found.modules} != {"dense"}:
            return None
        return {
            "num_tags": found.num_outputs,
            "labels": found.metadata["labels"],
            "segment_id": int(format_of(found.directory) != "hf"),
        }

    def rows(self, x: Sentences, y: Tags | None = None) -> Iterator[Row]:
        if any(isinstance(words, str) for words in x):  # read by letter
            raise TypeError("A sentence is a sequence of words, not a string.")
        numbers = []
        if y is not None:
            numbers = [np.array([*map(self.classes.number, t)]) for t in y]
            if [*map(len, numbers)] != [*map(len, x)]:
                raise ValueError("Sentences and their tags differ in number.")
        for eid, window, row in rows_of(x, self.tokenizer, self.max_seq_length):
            segments = np.full_like(row["input_ids"], self.segment_id)
            row = {**row, "eid": eid, "segment_ids": segments}
            if y is not None:
                row["labels"] = numbers[eid][window]
                row[WEIGHT] = row["labels_mask"]
            yield row

    def predict(
        self,
        x: Sentences | tf.data.Dataset,
        batch_size: int = BATCH_SIZE,
        **arguments: Any,
    ) -> list[np.ndarray] | np.ndarray:
        """Computes logits, [words, C] each; of a dataset [rows, L, C]."""
        if isinstance(x, tf.data.Dataset):
            return super().predict(x, **arguments)
        rows = list(self.rows(x))
        data = self._batches(rows, batch_size)
        outputs = super().predict(data, **arguments)
        logits = [
            np.zeros((len(words), self.classes.count), np.float32)
            for words in x
        ]
        for row, window in zip(rows, outputs, strict=True):
            places = np.flatnonzero(row["labels_mask"])
            logits[row["eid"]][row["first_word"] + places] = window[places]
        return logits

    def tag(
        self, sentences: Sentences, batch_size: int = BATCH_SIZE
    ) -> list[list[str | int]]:
        """Returns the most likely tag, or number, of each word."""
        logits = self.predict(sentences, batch_size, verbose=0)
        return [self.classes.names[x.argmax(-1)].tolist() for x in logits]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        removed = ("encoding", "original_spans")  # options of version 0.1
        return super().from_config(
            {k: v for k, v in config.items() if k not in removed}
        )
