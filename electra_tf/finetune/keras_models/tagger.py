"""A Keras model that tags words."""

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.checkpoint.loading import format_of
from electra_tf.config.model import BertConfig
from electra_tf.finetune.finetuned import Finetuned
from electra_tf.finetune.keras_models.task_model import (
    BATCH_SIZE,
    WEIGHT,
    Labels,
    TaskModel,
)
from electra_tf.finetune.preprocessing import Row
from electra_tf.finetune.tagging.spans import in_encoding, is_span_tag
from electra_tf.finetune.tagging.tagging_head import (
    COLUMNS,
    TaggingHead,
    rows_of,
)
from electra_tf.finetune.tagging.tagging_tasks import TaggingTask
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.flags import flatten

Sentences = Sequence[Sequence[str]]
"""Words of each sentence."""
Tags = Sequence[Sequence[str | int]]
"""A tag for each word of each sentence."""


@keras.saving.register_keras_serializable("electra_tf")
class TaggingLoss(keras.losses.Loss):
    """Sums the cross-entropy over the words of a row, averages over rows.

    So does `run_finetuning`. In a mean over the words of a batch, the weight of
    a row would depend on the other rows.
    """

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Returns L times the cross-entropy of each word, [B, L].

        Keras weighs it and takes the mean over B * L.
        """
        tags = tf.cast(y_true, tf.int32)  # Keras may build with float32
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tags, y_pred)
        return losses * tf.cast(tf.shape(losses)[1], losses.dtype)


@keras.saving.register_keras_serializable("electra_tf")
class ElectraTagger(TaskModel):
    """Tags the words of sentences.

    A sentence is a sequence of words, its tags a sequence of strings of
    `labels`, or of numbers. The model reads a long sentence in windows, and
    scores each word once, in the window with more context around it.

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
    Metrics weigh padding with 0.

    Args, beside those of `ElectraModel`:
      num_tags: C. Default: the number of labels.
      labels: labels in the order of the logits; empty for numbered tags.
      segment_id: segment of all tokens: 1 in the original, 0 in Hugging Face's
        models.
      encoding: encoding of the spans from `tag`, if `labels` encode spans: BIO,
        IOB1, or BIOES for the tags as they are.
      original_spans: whether spans continue where the kind changes, see
        `get_span_labels`.

    Call arguments: batches of `dataset`.

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
        encoding: str = "BIOES",
        original_spans: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(config, vocabulary, **options)
        self.classes = Labels(num_tags, labels)
        self.segment_id = segment_id
        self.encoding = encoding
        self.original_spans = original_spans
        self._add(TaggingHead, "tagger", self.classes.count)

    @classmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        if {*found.modules} != {"dense"}:
            return None
        config = flatten(found.description.get("config", {}))
        return {
            "num_tags": found.num_outputs,
            "labels": found.labels,
            "segment_id": int(format_of(found.directory) != "hf"),
            "encoding": found.metadata.get("encoding", "BIOES"),
            "original_spans": "spans" in config.get("original_behaviour", ()),
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
        """Computes the logits of each word, from all windows.

        Args:
          x: sentences; or batches of `dataset`.
          batch_size: rows in a batch; the logits do not depend on it.
          **arguments: arguments of `keras.Model.predict`.

        Returns:
          float32 [words, C] for each sentence; for batches [rows, L, C].
        """
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
        """Returns the most likely tag of each word.

        Args:
          sentences: words of each sentence.
          batch_size: rows in a batch; the tags do not depend on it.

        Returns:
          Labels, spans in `encoding`; numbers if the tags have no labels.
        """
        logits = self.predict(sentences, batch_size, verbose=0)
        tags = [self.classes.names(x) for x in logits]
        if not (self.labels and all(map(is_span_tag, self.labels))):
            return tags
        original = self.original_spans
        return [in_encoding(x, self.encoding, original=original) for x in tags]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_tags": self.classes.count,
            "labels": list(self.labels),
            "segment_id": self.segment_id,
            "encoding": self.encoding,
            "original_spans": self.original_spans,
        }
