"""Classification and regression of one's own texts or pairs."""

import collections
import csv
import dataclasses
import difflib
import functools
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.finetune.classification.classification_tasks import (
    ClassificationTask,
    RegressionTask,
    SingleOutputTask,
)
from electra_tf.finetune.classification.examples import InputExample
from electra_tf.finetune.custom import label_warnings
from electra_tf.finetune.custom.custom_metrics import (
    OwnClassificationScorer,
    OwnRegressionScorer,
)
from electra_tf.finetune.custom.custom_task import OwnTask, named
from electra_tf.finetune.readers import sources
from electra_tf.finetune.readers.reading import BadRowError
from electra_tf.finetune.readers.records import Record
from electra_tf.finetune.readers.sources import Source
from electra_tf.util.errors import UserError


class _Row(NamedTuple):
    """A row whose label is still as the file has it."""

    place: int | str
    example: InputExample


class OwnTextTask(OwnTask, SingleOutputTask):
    """A label or a value for each text or pair."""

    @property
    def is_unordered(self) -> bool:
        return self.columns.is_unordered_pair

    @property
    def is_pair(self) -> bool:
        return bool(self.columns.text_b_column)

    @property
    def input_names(self) -> tuple[str, ...]:
        columns = (self.columns.text_column, self.columns.text_b_column)
        return columns if self.is_pair else columns[:1]

    def text_of(self, example: InputExample) -> str:
        texts = [example.text_a, example.text_b or ""]
        return "\0".join(sorted(texts) if self.is_unordered else texts)

    @functools.cached_property
    def train_rows(self) -> list[_Row]:
        """All training rows, those that are held out included."""
        return self._rows(self.source_there("train"), needs_label=True)

    def read_examples(self, split: str, source: Source) -> list[InputExample]:
        is_test = split in self.TEST_SPLITS
        rows = (
            self.train_rows
            if source == self.source("train")
            else self._rows(source, needs_label=not is_test)
        )
        examples = []
        for place, example in rows:
            with self.bad_rows.at(source.path, place):
                label = self._label(example.label, is_test)
                examples.append(dataclasses.replace(example, label=label))
        return examples

    def _label(self, text: str | None, is_test: bool) -> str | float | None:
        """Checks a label; those of test rows may be anything."""
        if text is None:
            return None
        try:
            return self.parse_label(text)
        except BadRowError:
            if is_test:
                return None
            raise

    def _rows(self, source: Source, *, needs_label: bool) -> list[_Row]:
        rows = []
        label = (self.columns.label_column,)
        records = sources.read(
            source,
            self.config,
            self.input_names + label * needs_label,
            label * (not needs_label),
        )
        for eid, record in enumerate(records):
            with self.bad_rows.at(source.path, record.place):
                example = self._example(eid, record, needs_label)
                rows.append(_Row(record.place, example))
        return rows

    def _example(
        self, eid: int, record: Record, needs_label: bool
    ) -> InputExample:
        text_a, *text_b = map(record.text, self.input_names)
        label, column = None, self.columns.label_column
        if needs_label or record.has(column):
            label = record.label(column)
        if needs_label and label is None:
            raise BadRowError(
                f"{column!r} must hold a label. Received: nothing."
            )
        return InputExample(eid, text_a, *text_b or [None], label)

    def files(
        self, split: str, answers: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        """Makes a table of a test split: number of the row, and prediction.

        Args:
          split: one of `DEV_SPLITS` or `TEST_SPLITS`.
          answers: of the scorer.

        Returns:
          <task>_<split>.csv -> a line for each row; rows count from 0 below
          the names of the columns.
        """
        if split not in self.TEST_SPLITS:
            return {}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["row", "prediction"])
        writer.writerows((x["eid"], x["prediction"]) for x in answers)
        return {f"{self.name}_{split}.csv": text.getvalue()}


class OwnClassification(OwnTextTask, ClassificationTask):
    """One of some labels, which the training rows tell, for each text."""

    def get_labels(self) -> tuple[str, ...]:
        """Returns the labels as they are told, or else sorted.

        Raises:
          UserError: if there are too few, or too many for the metric.
        """
        path = self.path("train")
        column = self.columns.label_column
        labels = self.given_labels(column) or _sorted(
            str(row.example.label) for row in self.train_rows
        )
        if len(labels) < 2:
            raise UserError(
                "A classification must have two labels or more. Received: "
                f"{', '.join(labels) or 'none'} in {path}, column {column!r}."
            )
        if self.columns.main_metric == "f1" and len(labels) > 2:
            raise UserError(
                "`main_metric` must be another than f1 where there are more "
                f"than two labels. Received: {named(labels)} in {path}. Set "
                "--main_metric=macro_f1."
            )
        return labels

    def remark(self) -> str:
        counts = collections.Counter(x.example.label for x in self.train_rows)
        labels = [f"{label} {counts[label]:,}" for label in self.labels]
        return f"Labels: {named(labels)}."

    def warnings(self) -> list[str]:
        labels = [str(row.example.label) for row in self.train_rows]
        return label_warnings.of_labels(labels)

    def parse_label(self, text: str) -> str:
        if text in self._known:
            return text
        where = (
            "in --labels"
            if self.columns.labels
            else f"of the training rows in {self.path('train')}"
        )
        near = difflib.get_close_matches(text, self.labels, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise BadRowError(
            f"A label must be one of those {where}: {named(self.labels)}. "
            f"Received: {text!r}.{hint}"
        )

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.labels)

    def get_scorer(self) -> OwnClassificationScorer:
        return OwnClassificationScorer(self.labels, self.columns.main_metric)


class OwnRegression(OwnTextTask, RegressionTask):
    """A value for each text, whose range the training rows tell."""

    def get_range(self) -> tuple[float, float]:
        """Returns the range as configured, or that of the training rows.

        Raises:
          UserError: if they are the same.
        """
        if self.columns.value_range:
            low, high = self.columns.value_range
            return low, high
        texts = [str(row.example.label) for row in self.train_rows]
        values = [value for value in map(_number, texts) if value is not None]
        if len({*values}) < 2:
            raise UserError(
                "A regression must have two values or more. Received: "
                f"{named(sorted({*texts})) or 'none'} in "
                f"{self.path('train')}, column {self.columns.label_column!r}."
            )
        return min(values), max(values)

    def remark(self) -> str:
        low, high = self.value_range
        return f"Values: {low:g} to {high:g}."

    def parse_label(self, text: str) -> float:
        if self.columns.value_range:
            return super().parse_label(text)
        value = _number(text)
        if value is None:
            raise BadRowError(
                f"A value must be a finite number. Received: {text!r}."
            )
        return value

    def get_scorer(self) -> OwnRegressionScorer:
        return OwnRegressionScorer(*self.value_range, self.columns.main_metric)


def _number(text: str) -> float | None:
    """Returns a finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _sorted(labels: Sequence[str]) -> tuple[str, ...]:
    """Sorts labels, numbers by their values."""
    different = {*labels}
    if all(_number(label) is not None for label in different):
        return tuple(sorted(different, key=lambda x: (float(x), x)))
    return tuple(sorted(different))


KINDS = {"classification": OwnClassification, "regression": OwnRegression}
