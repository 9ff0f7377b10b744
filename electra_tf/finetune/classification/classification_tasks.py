"""Classification and regression of texts and pairs, whatever file they are in.

Source: the original's finetune/classification/classification_tasks.py.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
    RegressionHead,
)
from electra_tf.finetune.classification.classification_metrics import (
    ClassificationScorer,
    RegressionScorer,
)
from electra_tf.finetune.classification.examples import InputExample
from electra_tf.finetune.examples import EID, TOKENS, FeatureSpec
from electra_tf.finetune.preprocessing import join, truncate_pair
from electra_tf.finetune.readers.reading import BadRowError
from electra_tf.finetune.task import Head, Row, Task


class SingleOutputTask(Task):
    """A label or value for each text or pair.

    Attributes:
      IS_UNORDERED: whether both orders of a pair mean the same.
      TARGET: the column of labels.
    """

    IS_UNORDERED: ClassVar[bool] = False
    TARGET: ClassVar[FeatureSpec]

    @property
    def is_unordered(self) -> bool:
        """Whether both orders of a pair mean the same."""
        return self.IS_UNORDERED

    @property
    def is_pair(self) -> bool:
        """Whether a row has two texts."""
        raise NotImplementedError

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("text", "text_b") if self.is_pair else ("text",)

    def make_example(self, eid: int, inputs: Sequence[str]) -> InputExample:
        return InputExample(eid, *inputs)

    def get_feature_specs(self) -> tuple[FeatureSpec, ...]:
        return (*TOKENS, EID, self.TARGET)

    def featurize(
        self, examples: Sequence[InputExample], *, is_training: bool
    ) -> Iterator[Row]:
        """Yields a row for each example, then for the other order of pairs.

        The second rows are there in training on pairs without an order, if
        `double_unordered` says so.

        Args:
          examples: of one split.
          is_training: whether the rows are to learn from.
        """
        doubles = self.is_unordered and self.config.task.double_unordered
        first = self.tokenizer.tokenize([x.text_a for x in examples])
        second = [None] * len(first)
        if any(x.text_b is not None for x in examples):
            second = self.tokenizer.tokenize([x.text_b or "" for x in examples])
        orders = [(first, second)]
        if is_training and doubles:
            orders.append((second, first))
        for one, other in orders:
            for eid, example in enumerate(examples):
                yield {
                    **self._tokens(one[eid], other[eid]),
                    "eid": eid,
                    self.TARGET.name: self.target(example.label),
                }

    def _tokens(self, first: Any, second: Any) -> Row:  # noqa: ANN401
        vocabulary, size = self.tokenizer.vocabulary, self.max_seq_length
        if second is None:
            return join(vocabulary, first[: size - 2])
        return join(vocabulary, *truncate_pair(first, second, size - 3))

    def parse_label(self, text: str) -> str | float:
        """Checks a label as it stands in a file.

        Args:
          text: of the label.

        Raises:
          BadRowError: if there is no such label.
        """
        raise NotImplementedError

    def target(self, label: str | float | None) -> int | float:
        """Returns what the head learns for a label; 0 for an unknown one."""
        raise NotImplementedError


class ClassificationTask(SingleOutputTask):
    """One of some labels for each text or pair.

    Attributes:
      LABELS: in the order of the logits.
      SCORER: class of its metrics.
    """

    KIND: ClassVar[str] = "classification"
    LABELS: ClassVar[tuple[str, ...]] = ("0", "1")
    SCORER: ClassVar[type[ClassificationScorer]] = ClassificationScorer
    TARGET: ClassVar[FeatureSpec] = FeatureSpec("label_ids")

    def get_labels(self) -> tuple[str, ...]:
        return self.LABELS

    def parse_label(self, text: str) -> str:
        if text not in self.labels:
            raise BadRowError(
                f"A label must be one of {', '.join(self.labels)}. "
                f"Received: {text!r}."
            )
        return text

    def target(self, label: str | float | None) -> int:
        return 0 if label is None else self.labels.index(str(label))

    def head(self) -> Head:
        kind = self.config.task.head
        return ClassificationHead(self.name, len(self.labels), kind)

    def get_scorer(self) -> ClassificationScorer:
        return self.SCORER(self.labels)


class RegressionTask(SingleOutputTask):
    """A value for each text or pair.

    Differs: the original divides by the greatest value instead of the span,
    which is the same where the least is 0.

    Attributes:
      RANGE: the least and the greatest value, which become 0 and 1.
    """

    KIND: ClassVar[str] = "regression"
    RANGE: ClassVar[tuple[float, float]]
    TARGET: ClassVar[FeatureSpec] = FeatureSpec("targets", is_float=True)

    @functools.cached_property
    def value_range(self) -> tuple[float, float]:
        """The least and the greatest value, which become 0 and 1."""
        return tuple(self.known.get("value_range", ())) or self.get_range()

    def get_range(self) -> tuple[float, float]:
        """Returns the range; it may read the training data."""
        return self.RANGE

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "value_range": self.value_range}

    def parse_label(self, text: str) -> float:
        low, high = self.value_range
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise BadRowError(
                f"A value must be a number from {low:g} to {high:g}. "
                f"Received: {text!r}."
            )
        return value

    def target(self, label: str | float | None) -> float:
        low, high = self.value_range
        return 0.0 if label is None else (float(label) - low) / (high - low)

    def head(self) -> Head:
        return RegressionHead(self.name, self.config.task.head)

    def get_scorer(self) -> RegressionScorer:
        return RegressionScorer(*self.value_range)
