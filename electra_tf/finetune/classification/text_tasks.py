"""Texts and pairs: rows of GLUE's files or of a custom task's tables.

Source: the original's finetune/classification/classification_tasks.py.
"""

import csv
import dataclasses
import functools
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

from electra_tf.data import prepared, tables
from electra_tf.data.answering import InputSpec
from electra_tf.data.tables import BadRowError, Layout
from electra_tf.finetune import sources
from electra_tf.finetune.examples import EID, TOKENS, FeatureSpec, InputExample
from electra_tf.finetune.sources import Source
from electra_tf.finetune.task import Preset, Row, Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextPreset(Preset):
    """A task of GLUE, in tab-separated files or a prepared data set."""

    features: tuple[str, ...]
    labelled: Layout
    unlabelled: Layout
    other_layouts: Mapping[str, Layout] = field(default_factory=dict)
    header_names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    value_range: tuple[float, float] | None = None
    metrics: tuple[str, ...] = ("accuracy",)
    is_unordered: bool = False
    submissions: Mapping[str, str] = field(default_factory=dict)

    def layout(self, split: str) -> Layout:
        """Returns the column layout of the file of a split."""
        is_test = split in self.test_splits
        default = self.unlabelled if is_test else self.labelled
        return self.other_layouts.get(split, default)


class _RawExample(NamedTuple):
    """An example with its label as it is in the row, unchecked."""

    place: int | str
    example: InputExample


class TextTask(Task):
    """A label or value for each text or pair."""

    TARGET: ClassVar[FeatureSpec]
    preset: TextPreset | None

    @property
    def is_unordered(self) -> bool:
        """Whether both orders of a pair mean the same."""
        if self.preset:
            return self.preset.is_unordered
        return self.columns.is_unordered_pair

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

    @functools.cached_property
    def train_rows(self) -> list[_RawExample]:
        """All training rows, those that are held out included."""
        return self._read("train", self.required_source("train"))

    def read_examples(self, split: str, source: Source) -> list[InputExample]:
        is_test = split in self.test_splits
        is_train = source == self.source("train")
        rows = self.train_rows if is_train else self._read(split, source)
        examples = []
        for place, example in rows:
            with self.bad_rows.at(source.path, place):
                label = self._label(example.label, is_test)
                examples.append(dataclasses.replace(example, label=label))
        return sorted(examples, key=lambda example: example.eid)

    def _label(self, text: str | None, is_test: bool) -> str | float | None:
        """Checks a label; an invalid one of a test row becomes None."""
        label = None if text is None else self.parse_label(text)
        if not is_test and text is not None and label is None:
            raise BadRowError(self.label_problem(text))
        return label

    def _read(self, split: str, source: Source) -> list[_RawExample]:
        """Reads the rows of a split, with their labels unchecked."""
        needs_label = split not in self.test_splits
        if self.preset:
            records = self._glue_records(split, source)
        else:
            label = (self.columns.label_column,)
            required = self.input_names + label * needs_label
            records = sources.read(source, self.columns, required, label)
        rows = []
        for number, record in enumerate(records):
            with self.bad_rows.at(source.path, record.place):
                # Data sets of GLUE are not in the order of its files.
                eid = (
                    record.value("idx", int, number) if self.preset else number
                )
                example = self._example(eid, record, needs_label)
                rows.append(_RawExample(record.place, example))
        return rows

    def _glue_records(self, split: str, source: Source) -> Iterator[tables.Row]:
        """Yields the rows of a split of GLUE, with our names of columns."""
        preset = self.preset
        if not source.split:
            layout = preset.layout(split)
            yield from sources.read(source, self.columns, layout=layout)
            return
        label = ("label",) * (split not in self.test_splits)
        # A label of GLUE's files is a number, or else the name of the class.
        class_names = "0" not in preset.labels
        for record in prepared.read_rows(
            str(source.path),
            source.split,
            (*preset.features, "idx", *label),
            uses_class_names=class_names,
        ):
            for name, feature in zip(
                self.input_names, preset.features, strict=True
            ):
                record[name] = record.pop(feature)
            yield record

    def _example(
        self, eid: int, record: tables.Row, needs_label: bool
    ) -> InputExample:
        # GLUE has a few pairs with an empty text.
        read = record.value if self.preset else record.text
        text_a, *text_b = map(read, self.input_names)
        column = "label" if self.preset else self.columns.label_column
        label = record.label(column)
        if needs_label and label is None:
            raise BadRowError(
                f"{column!r} must hold a label. Received: nothing."
            )
        return InputExample(eid, text_a, *text_b or [None], label)

    def get_feature_specs(self) -> tuple[FeatureSpec, ...]:
        return (*TOKENS, EID, self.TARGET)

    def featurize(
        self, examples: Sequence[InputExample], *, is_training: bool
    ) -> Iterator[Row]:
        """Yields a row for each example, then one for each swapped pair."""
        adds_swapped_pairs = (
            self.is_unordered and self.config.task.double_unordered
        )
        columns = [[x.text_a for x in examples]]
        if any(x.text_b is not None for x in examples):
            columns.append([x.text_b or "" for x in examples])
        orders = [columns]
        if is_training and adds_swapped_pairs:
            orders.append(columns[::-1])
        for texts in orders:
            rows = self.tokenizer.rows(*texts, length=self.max_seq_length)
            pairs = zip(examples, rows, strict=True)
            for eid, (example, row) in enumerate(pairs):
                target = self.target(example.label)
                yield {**row, "eid": eid, self.TARGET.name: target}

    def parse_label(self, text: str) -> str | float | None:
        """Returns the label that a file spells; None if there is no such."""
        raise NotImplementedError

    def label_problem(self, text: str) -> str:
        """Says what a label that `parse_label` does not know must be."""
        raise NotImplementedError

    def target(self, label: str | float | None) -> int | float:
        """Returns what the head learns for a label; 0 for an unknown one."""
        raise NotImplementedError

    def output_files(
        self, split: str, answers: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        """Formats a table of a test split: number of the row, and
        prediction."""
        if split not in self.test_splits:
            return {}
        if self.preset:
            lines = ["index\tprediction"]
            for answer in answers:
                value = answer["prediction"]
                text = value if isinstance(value, str) else f"{value:.3f}"
                lines.append(f"{answer['eid']}\t{text}")
            name = self.preset.submissions[split]
            return {f"{name}.tsv": "\n".join(lines) + "\n"}
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["row", "prediction"])
        writer.writerows((x["eid"], x["prediction"]) for x in answers)
        return {f"{self.name}_{split}.csv": table.getvalue()}
