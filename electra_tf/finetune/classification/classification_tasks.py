"""Classification and regression of texts and pairs, of GLUE or of tables.

Source: the original's finetune/classification/classification_tasks.py.

Letters in shapes: B rows, L tokens, H hidden, C classes.
"""

import csv
import dataclasses
import functools
import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import scipy.special
import tensorflow as tf

from electra_tf.data import prepared_datasets, tables
from electra_tf.data.answering import InputSpec
from electra_tf.data.tables import BadRowError, Layout
from electra_tf.finetune import scorer
from electra_tf.finetune.preprocessing import InputExample, Row
from electra_tf.finetune.scorer import Answers, Metrics, Outputs
from electra_tf.finetune.task import Head, Preset, Source, Task, Tensors
from electra_tf.model import layers, tensor_ops
from electra_tf.model.modeling import EncoderOutput
from electra_tf.util import seeds
from electra_tf.util.errors import UserError, listed

_DROPOUT = 0.1  # independent of the encoder's
_INITIALIZER_RANGE = 0.02  # of Hugging Face's layers
MULTI_LABEL = "multi_label_classification"  # a problem_type of Hugging Face's


class ClassificationHead(Head):
    """Dropout on the state of [CLS], then a dense layer.

    Source of "hugging_face": transformers' `ElectraClassificationHead`.
    """

    def __init__(
        self, name: str, num_outputs: int, kind: str = "electra"
    ) -> None:
        super().__init__(name, kind)
        self.num_outputs = num_outputs

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        if self.kind == "electra":
            self.dense = layers.Linear(self.num_outputs, None, name="dense")
            self.dense.build(input_shape)
            return
        width, scale = input_shape[-1], _INITIALIZER_RANGE
        self.dense = layers.Linear(width, scale, name="dense")
        self.out_proj = layers.Linear(self.num_outputs, scale, name="out_proj")
        with keras.name_scope("classifier"):
            self.dense.build(input_shape)
            self.out_proj.build(input_shape)

    def call(
        self,
        states: EncoderOutput,
        features: Tensors,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        x = tensor_ops.dropout(states.pooled_output, _DROPOUT, keys)  # [B, H]
        x = self.dense(x)
        if self.kind == "hugging_face":
            keys = seeds.fold_in(keys, 1)
            x = tensor_ops.dropout(tensor_ops.gelu(x), _DROPOUT, keys)
            x = self.out_proj(x)
        return {"logits": x}

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        labels, logits = features["label_ids"], outputs["logits"]
        if labels.shape.rank == 2:  # masks of independent labels
            labels = tf.cast(labels, tf.float32)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            return tf.reduce_mean(losses, -1)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


_DEGENERATE_DEVIATION = 1e-4  # of values in [0, 1]

Examples = Sequence[InputExample]
Label = str | tuple[str, ...]


class RegressionHead(ClassificationHead):
    """A `ClassificationHead` with one output, for targets in [0, 1]."""

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        return tf.square(outputs["logits"][:, 0] - features["targets"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextPreset(Preset):
    """A task of GLUE, in tab-separated files or a prepared data set."""

    features: tuple[str, ...]
    labelled: Layout
    unlabelled: Layout
    diagnostic: Layout | None = None
    header_names: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    submissions: tuple[str, ...]


class TextTask(Task):
    """A label or value for each text or pair."""

    TARGET: ClassVar[str]
    custom_metrics: tuple[str, ...]  # of a task without a preset
    is_multi_label = False
    preset: TextPreset | None

    @property
    def metric_names(self) -> tuple[str, ...]:
        return self.preset.metrics if self.preset else self.custom_metrics

    @property
    def main_metric(self) -> str:
        return self.columns.main_metric or self.metric_names[0]

    @property
    def input_names(self) -> tuple[str, ...]:
        if self.preset:
            return ("text", "text_b")[: len(self.preset.features)]
        names = (self.columns.text_column, self.columns.text_b_column)
        return tuple(filter(None, names))

    @property
    def input_spec(self) -> InputSpec:
        spec, preset = super().input_spec, self.preset
        if not preset:
            return spec
        layout = preset.labelled
        return spec._replace(
            file_names=preset.header_names or preset.features,
            bare_layout=layout if layout.num_columns else None,
        )

    def make_example(self, eid: int, inputs: Sequence[str]) -> InputExample:
        return InputExample(eid, *inputs)

    def texts_of(self, example: InputExample) -> tuple[str, ...]:
        return tuple(filter(None, (example.text_a, example.text_b)))

    @property
    def _train_labels(self) -> set[str]:
        path, labels = self.source("train").path, set()
        for row in self.train_rows:
            with self.bad_rows.at(path, row.place):
                label = row.label(self.columns.label_column)
                labels |= {*label} if isinstance(label, tuple) else {label}
        return labels - {None}

    def read_examples(self, split: str, source: Source) -> list[InputExample]:
        names, preset, examples = self.input_names, self.preset, []
        if preset and source.split:
            names = preset.features
        for eid, row in enumerate(self.rows_of_source(split, source)):
            with self.bad_rows.at(source.path, row.place):
                # A few texts of GLUE are empty.
                read = row.value if preset else row.text
                texts = [read(name) for name in names]
                if preset and source.split:
                    # Data sets of GLUE are not in the order of its files.
                    eid = row.value("idx", int)
                text = row.label(self.columns.label_column)
                label = text and self.parse_label(text)
                if label is None and split not in self.test_splits:
                    raise BadRowError(f"{text!r} is no label.")
                examples.append(InputExample(eid, *texts, label=label))
        return sorted(examples, key=lambda example: example.eid)

    def read_rows(self, split: str, source: Source) -> list[tables.Row]:
        preset, is_test = self.preset, split in self.test_splits
        label = self.columns.label_column
        labels = () if is_test else (label,)
        if not preset:
            names = (*self.input_names, *labels)
            return list(source.read(self.columns, names, (label,)))
        if source.split:
            rows = prepared_datasets.read_rows(
                str(source.path),
                source.split,
                (*preset.features, "idx", *labels),
                # A label of GLUE's files is a number, or else a class's name.
                uses_class_names="0" not in self.labels,
            )
            return list(rows)
        layout = preset.unlabelled if is_test else preset.labelled
        if split == "diagnostic":
            layout = preset.diagnostic
        return list(source.read(self.columns, layout=layout))

    def featurize(
        self, examples: Examples, *, is_training: bool
    ) -> Iterator[Row]:
        """Yields a row for each example, then one for each swapped pair."""
        columns = [[x.text_a for x in examples]]
        if any(x.text_b is not None for x in examples):
            columns.append([x.text_b or "" for x in examples])
        orders = [columns]
        is_unordered = self.columns.is_unordered_pair
        doubles = is_unordered and self.config.task.double_unordered
        if is_training and doubles:
            orders.append(columns[::-1])
        for texts in orders:
            rows = self.tokenizer.rows(*texts, length=self.max_seq_length)
            for eid, row in enumerate(rows):
                target = self.target(examples[eid].label)
                yield {**row, "eid": eid, self.TARGET: target}

    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        targets = np.array([self.target(example.label) for example in examples])
        values = self.compute_metrics(targets, self.predictions(outputs))
        metrics = {name: values[name] for name in self.metric_names}
        return {**metrics, "loss": float(np.mean(outputs["loss"]))}

    def answers(self, outputs: Outputs, examples: Examples) -> Answers:
        pairs = zip(examples, self.details(outputs), strict=True)
        return [{"eid": x.eid, "label": x.label, **found} for x, found in pairs]

    def output_files(self, split: str, answers: Answers) -> dict[str, str]:
        """Formats a table of a test split: number of the row, prediction."""
        if split not in self.test_splits:
            return {}
        name, header, delimiter = f"{self.name}_{split}.csv", "row", ","
        if self.preset:
            number = self.test_splits.index(split)
            name = f"{self.preset.submissions[number]}.tsv"
            header, delimiter = "index", "\t"
        table = io.StringIO()
        writer = csv.writer(table, delimiter=delimiter, lineterminator="\n")
        writer.writerow([header, "prediction"])
        for answer in answers:
            value = answer["prediction"]
            if self.preset and isinstance(value, float):
                value = f"{value:.3f}"
            if self.is_multi_label:
                value = json.dumps(value, ensure_ascii=False)
            writer.writerow([answer["eid"], value])
        return {name: table.getvalue()}


class ClassificationTask(TextTask):
    """Predicts one of several labels, or a set, for each text or pair."""

    KIND: ClassVar[str] = "classification"
    TARGET: ClassVar[str] = "label_ids"
    compute_metrics = staticmethod(scorer.classification_metrics)

    @functools.cached_property
    def is_multi_label(self) -> bool:
        """True if the column of labels holds lists."""
        if self.metadata or self.preset or not self.source("train").exists:
            return self.metadata.get("problem_type") == MULTI_LABEL
        column = self.columns.label_column
        rows = (row for row in self.train_rows if not row.problem)
        values = (row.value(column, default=None) for row in rows)
        return any(isinstance(value, list) for value in values)

    def describe(self) -> dict[str, Any]:
        described = super().describe()
        if self.is_multi_label:
            described["problem_type"] = MULTI_LABEL
        return described

    def get_labels(self) -> tuple[str, ...]:
        """Returns the configured labels, else the sorted training labels."""
        labels = self.class_names(self.columns.label_column)
        if not labels:
            labels = sorted(self._train_labels)
            if None not in map(_number, labels):
                labels.sort(key=_number)
        needs_two = self.columns.main_metric == "f1" and not self.is_multi_label
        if len(labels) < 2 or (needs_two and len(labels) > 2):
            raise UserError(
                f"{self.source('train')} has the labels {listed(labels)}; "
                f"a classification{' by F1' * needs_two} needs two."
            )
        return tuple(labels)

    def parse_label(self, label: Label) -> Label | None:
        labels = label if self.is_multi_label else (label,)
        is_known = isinstance(labels, tuple) and {*labels} <= {*self.labels}
        return label if is_known else None

    def target(self, label: Label | None) -> int | np.ndarray:
        if self.is_multi_label:
            return np.isin(self.labels, label or ())
        return 0 if label is None else self.labels.index(label)

    def head(self) -> ClassificationHead:
        kind = self.config.task.head
        return ClassificationHead(self.name, len(self.labels), kind)

    @property
    def custom_metrics(self) -> tuple[str, ...]:
        is_binary = self.is_multi_label or len(self.labels) == 2
        binary = ("precision", "recall", "f1") * is_binary
        return ("accuracy", "macro_f1", "mcc", *binary)

    def predictions(self, outputs: Outputs) -> np.ndarray:
        """Returns class numbers, or masks of the sets."""
        logits = outputs["logits"]
        return logits > 0 if self.is_multi_label else np.argmax(logits, -1)

    def is_constant(self, outputs: Outputs) -> bool:
        return len(np.unique(self.predictions(outputs), axis=0)) == 1

    def details(self, outputs: Outputs) -> Answers:
        shares = np.exp(scorer.log_softmax(outputs["logits"]))
        if self.is_multi_label:
            shares = scipy.special.expit(outputs["logits"].astype(float))
        names = np.array(self.labels)
        pairs = zip(self.predictions(outputs), shares.tolist(), strict=True)
        return [
            {
                "prediction": names[chosen].tolist(),
                "probabilities": dict(zip(self.labels, row, strict=True)),
            }
            for chosen, row in pairs
        ]


class RegressionTask(TextTask):
    """Predicts a value for each text or pair.

    Differs: the original divides by the greatest value instead of the range,
    which is the same if the least value is 0.
    """

    KIND: ClassVar[str] = "regression"
    TARGET: ClassVar[str] = "targets"
    compute_metrics = staticmethod(scorer.regression_metrics)
    custom_metrics = ("spearman", "pearson", "mse", "r2")

    @functools.cached_property
    def value_range(self) -> tuple[float, float]:
        """The least and the greatest value, which become 0 and 1."""
        known = self.metadata.get("value_range") or self.columns.value_range
        if known:
            return tuple(known)
        values = {_number(label) for label in self._train_labels} - {None}
        if len(values) < 2:
            raise UserError(
                f"{self.source('train')} has the values {values or 'none'}; "
                "a regression needs two."
            )
        return min(values), max(values)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest answer."""
        return self.metadata.get("bounds") or self.value_range

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "value_range": self.value_range}

    def parse_label(self, text: str) -> float | None:
        low, high = self.columns.value_range or (-math.inf, math.inf)
        value = _number(text)
        return value if value is not None and low <= value <= high else None

    def target(self, label: float | None) -> float:
        low, high = self.value_range
        return 0.0 if label is None else (label - low) / (high - low)

    def head(self) -> RegressionHead:
        return RegressionHead(self.name, 1, self.config.task.head)

    def predictions(self, outputs: Outputs) -> np.ndarray:
        return outputs["logits"][:, 0].astype(float)

    def is_constant(self, outputs: Outputs) -> bool:
        values = np.clip(self.predictions(outputs), 0.0, 1.0)
        return float(np.std(values)) < _DEGENERATE_DEVIATION

    def details(self, outputs: Outputs) -> Answers:
        low, high = self.value_range
        values = low + self.predictions(outputs) * (high - low)
        values = np.clip(values, *self.bounds).tolist()
        return [{"prediction": value} for value in values]


def _number(text: str) -> float | None:
    """Returns a finite number, or None."""
    try:
        value = float(text)
    except (TypeError, ValueError):  # of a list
        return None
    return value if math.isfinite(value) else None
