"""Keras models of classes or values, for texts or pairs of texts."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
    RegressionHead,
)
from electra_tf.finetune.classification.classification_tasks import (
    ClassificationTask,
    RegressionTask,
)
from electra_tf.finetune.finetuned import Finetuned
from electra_tf.finetune.keras_models.base import Strings, Texts, columns_of
from electra_tf.finetune.keras_models.task_model import (
    BATCH_SIZE,
    Labels,
    TaskModel,
    num_tokens,
)
from electra_tf.finetune.preprocessing import Batch, Row
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util.errors import ElectraWarning


class TextModel(TaskModel):
    """A model of texts, or of pairs of them."""

    def rows(self, x: Texts, y: Sequence | None = None) -> Iterator[Row]:
        rows = self.tokenizer.rows(*columns_of(x), length=self.max_seq_length)
        if y is None:
            return ({"eid": eid, **row} for eid, row in enumerate(rows))
        targets = self.targets(np.asarray(y).tolist())
        return (
            {"eid": eid, **row, self.TARGET: target}
            for eid, (row, target) in enumerate(zip(rows, targets, strict=True))
        )

    def targets(self, y: list) -> list[int] | list[float]:
        """Converts what users pass as `y`."""
        raise NotImplementedError

    def predict(
        self,
        x: Texts | tf.data.Dataset,
        batch_size: int = BATCH_SIZE,
        **arguments: Any,
    ) -> np.ndarray:
        """Computes the outputs of each text; see the class."""
        if isinstance(x, tf.data.Dataset):
            return super().predict(self.read_batches(x), **arguments)
        rows = sorted(self.rows(x), key=num_tokens)
        data = self._batches(rows, batch_size, by_length=True)
        order = np.argsort([row["eid"] for row in rows])
        return super().predict(data, **arguments)[order]

    def read_batches(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Converts a user's batches for the model.

        Args:
          data: batches as `dataset` makes them; or batches of strings: texts,
            (texts, labels), (texts, labels, weights), where a tuple of two
            takes the place of the texts for pairs. They are tokenized in the
            graph, with rows of `max_seq_length`.
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
class ElectraClassifier(TextModel):
    """Classifies texts, or pairs of them.

    Texts are a sequence of strings; pairs a sequence of tuples of two, or a
    tuple of two sequences. Labels are numbers, or strings of `labels`.

    Example:
      model = electra_tf.ElectraClassifier.from_checkpoint(
          path, labels=("bad", "good")
      )
      model.compile()
      model.fit(["a fine film", "a dull one"], ["good", "bad"], epochs=3)
      model.classify(["what a film"])  # ["good"]
      logits = model.predict(["what a film"])
      model.save("film.keras")

    In another process, `from electra_tf import ElectraClassifier` comes before
    `keras.saving.load_model("film.keras")`, so that Keras knows the class.

    The default loss is the cross-entropy of logits, the metric the accuracy.

    Args, beside those of `ElectraModel`:
      num_classes: C. Default: the number of labels.
      labels: labels in the order of the logits; empty for numbered classes.
      head: "electra" or "hugging_face", see `ClassificationHead`.

    Call arguments: "input_ids", "input_mask" and "segment_ids", int32 [B, L],
    as `preprocess` and `dataset` make them.

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
        **options: Any,
    ) -> None:
        super().__init__(config, vocabulary, **options)
        self.classes = Labels(num_classes, labels)
        self._add(ClassificationHead, "classifier", self.classes.count, head)

    @classmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        if not found.head:
            return None
        options = {"labels": found.labels, "head": found.head}
        return {"num_classes": found.num_outputs, **options}

    def targets(self, y: list) -> list[int]:
        return [self.classes.number(label) for label in y]

    def classify(
        self, texts: Texts, batch_size: int = BATCH_SIZE
    ) -> list[str | int]:
        """Returns the most likely class of each text.

        Args:
          texts: texts or pairs, see the class.
          batch_size: rows in a batch; the answers do not depend on it.

        Returns:
          Labels; numbers if the classes have no labels.
        """
        logits = self.predict(texts, batch_size, verbose=0)
        return self.classes.names(logits)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_classes": self.classes.count,
            "labels": list(self.labels),
            "head": self.head.kind,
        }


@keras.saving.register_keras_serializable("electra_tf")
class ElectraRegressor(TextModel):
    """Predicts a value of each text, or pair of texts.

    It takes the inputs of `ElectraClassifier`.

    Example:
      model = electra_tf.ElectraRegressor.from_checkpoint(
          path, value_range=(1, 5)
      )
      model.compile()
      model.fit(["a fine film", "a dull one"], [4.5, 2], epochs=3)
      model.predict(["what a film"])  # [[3.9]]

    The default loss is the squared error, the metric the absolute error,
    "mae". Losses and metrics receive targets and outputs as [B, 1]; if you
    write both the loss and the dataset, the dataset holds such targets.

    Args, beside those of `ElectraModel`:
      value_range: values of the head's outputs 0 and 1, ideally the least and
        the greatest target; targets outside cause a warning.
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
        low, high = map(float, value_range)
        self.value_range = (low, high)
        self._add(RegressionHead, "regressor", head)

    @classmethod
    def options_of(cls, found: Finetuned) -> dict[str, Any] | None:
        if not found.head or found.num_outputs != 1:
            return None
        stored = found.metadata.get("value_range") or found.weights.value_range
        return {"value_range": tuple(stored or (0.0, 1.0)), "head": found.head}

    def targets(self, y: list) -> list[float]:
        targets = np.asarray(y, float).reshape(-1)
        low, high = self.value_range
        if targets.min() < low or targets.max() > high:
            warnings.warn(
                f"Targets from {targets.min():g} to {targets.max():g} exceed "
                f"value_range={self.value_range}: training converges slowly.",
                ElectraWarning,
                stacklevel=2,
            )
        return targets.tolist()

    def outputs_of(self, head_outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        # Keras takes the mean of the last axis before it weighs samples.
        outputs = head_outputs["predictions"][:, tf.newaxis]
        low, high = self.value_range
        return low + (high - low) * outputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "value_range": list(self.value_range),
            "head": self.head.kind,
        }
