"""The kinds classification and regression: labels, heads and metrics.

Source: the original's finetune/classification/classification_tasks.py.
"""

import collections
import difflib
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from electra_tf.finetune import label_warnings
from electra_tf.finetune.classification.classification_heads import (
    ClassificationHead,
    RegressionHead,
)
from electra_tf.finetune.classification.classification_metrics import (
    ClassificationScorer,
    RegressionScorer,
)
from electra_tf.finetune.classification.text_tasks import TextTask
from electra_tf.finetune.examples import FeatureSpec
from electra_tf.finetune.head import Head
from electra_tf.util.errors import UserError, listed


class ClassificationTask(TextTask):
    """Predicts one of several labels for each text or pair."""

    KIND: ClassVar[str] = "classification"
    TARGET: ClassVar[FeatureSpec] = FeatureSpec("label_ids")

    def get_labels(self) -> tuple[str, ...]:
        """Returns the labels as configured, or those of training rows,
        sorted."""
        if self.preset:
            return self.preset.labels
        path = self.source("train").path
        column = self.columns.label_column
        labels = self.class_names(column) or _sorted_labels(
            str(row.example.label) for row in self.train_rows
        )
        if len(labels) < 2:
            raise UserError(
                "A classification must have at least two labels. Received: "
                f"{', '.join(labels) or 'none'} in {path}, column {column!r}."
            )
        if self.columns.main_metric == "f1" and len(labels) > 2:
            raise UserError(
                "`main_metric` must not be f1 where there are more than two "
                f"labels. Received: {listed(labels)} in {path}. Set "
                "--main_metric=macro_f1."
            )
        return labels

    def data_summary(self) -> str:
        if self.preset:
            return ""
        counts = collections.Counter(x.example.label for x in self.train_rows)
        labels = [f"{label} {counts[label]:,}" for label in self.labels]
        return f"Labels: {listed(labels)}."

    def warnings(self) -> list[str]:
        if self.preset:
            return []
        labels = [str(row.example.label) for row in self.train_rows]
        return label_warnings.of_labels(labels)

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}

    def parse_label(self, text: str) -> str | None:
        return text if text in self._ids else None

    def label_problem(self, text: str) -> str:
        where = f"those of the training rows in {self.source('train').path}: "
        if self.columns.labels:
            where = "those in --labels: "
        if self.preset:
            where = ""
        near = difflib.get_close_matches(text, self.labels, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return (
            f"A label must be one of {where}{listed(self.labels)}. "
            f"Received: {text!r}.{hint}"
        )

    def target(self, label: str | float | None) -> int:
        return 0 if label is None else self._ids[str(label)]

    def head(self) -> Head:
        kind = self.config.task.head
        return ClassificationHead(self.name, len(self.labels), kind)

    def get_scorer(self) -> ClassificationScorer:
        if self.preset:
            return ClassificationScorer(self.labels, self.preset.metrics)
        binary = ("precision", "recall", "f1") * (len(self.labels) == 2)
        return ClassificationScorer(
            self.labels,
            ("accuracy", "macro_f1", "mcc", *binary),
            self.columns.main_metric,
        )


class RegressionTask(TextTask):
    """Predicts a value for each text or pair.

    Differs: the original divides by the greatest value instead of the range,
    which is the same if the least value is 0.
    """

    KIND: ClassVar[str] = "regression"
    TARGET: ClassVar[FeatureSpec] = FeatureSpec("targets", is_float=True)

    @functools.cached_property
    def value_range(self) -> tuple[float, float]:
        """The least and the greatest value, which become 0 and 1."""
        return tuple(
            self.metadata.get("value_range")
            or self._given_range
            or self._range_of_rows()
        )

    @property
    def _given_range(self) -> tuple[float, ...]:
        if self.preset:
            return self.preset.value_range
        return self.columns.value_range

    def _range_of_rows(self) -> tuple[float, float]:
        """Returns the range of the training rows, which must differ."""
        texts = [str(row.example.label) for row in self.train_rows]
        values = [
            value for value in map(_parse_number, texts) if value is not None
        ]
        if len({*values}) < 2:
            raise UserError(
                "A regression must have at least two different values. "
                f"Received: {listed(sorted({*texts})) or 'none'} in "
                f"{self.source('train').path}, column "
                f"{self.columns.label_column!r}."
            )
        return min(values), max(values)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "value_range": self.value_range}

    def data_summary(self) -> str:
        low, high = self.value_range
        return "" if self.preset else f"Values: {low:g} to {high:g}."

    def parse_label(self, text: str) -> float | None:
        value, given = _parse_number(text), self._given_range
        is_outside = (
            given and value is not None and not given[0] <= value <= given[1]
        )
        return None if is_outside else value

    def label_problem(self, text: str) -> str:
        what = "a finite number"
        if self._given_range:
            low, high = self._given_range
            what = f"a number from {low:g} to {high:g}"
        return f"A value must be {what}. Received: {text!r}."

    def target(self, label: str | float | None) -> float:
        low, high = self.value_range
        return 0.0 if label is None else (float(label) - low) / (high - low)

    def head(self) -> Head:
        return RegressionHead(self.name, self.config.task.head)

    def get_scorer(self) -> RegressionScorer:
        metrics = ("pearson", "spearman", "mse", "r2")
        return RegressionScorer(
            *self.value_range,
            self.preset.metrics if self.preset else metrics,
            self.columns.main_metric,
        )


def _parse_number(text: str) -> float | None:
    """Returns a finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _sorted_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Sorts the distinct labels, by value if all are numbers."""
    distinct = {*labels}
    if all(_parse_number(label) is not None for label in distinct):
        return tuple(sorted(distinct, key=lambda x: (float(x), x)))
    return tuple(sorted(distinct))


KINDS = {"classification": ClassificationTask, "regression": RegressionTask}
"""The kinds of custom tasks, as `--task_kind` has them."""
