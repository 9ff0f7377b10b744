"""A task: where its rows are, how they are read, its head and its metrics.

A task consists of a reader and one of four kinds, each a subclass of `Task`.
What it reads is defined by a `Preset` for a built-in task
(`task_builder.TASKS`), and by flags for a custom task (`--task_kind`).
"""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from electra_tf.config.columns import ColumnsConfig
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.data import held_out, prepared, tables
from electra_tf.data.answering import InputSpec
from electra_tf.data.tables import BadRows
from electra_tf.finetune import sources
from electra_tf.finetune.examples import Example, FeatureSpec
from electra_tf.finetune.head import Head
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.scorer import Scorer
from electra_tf.finetune.sources import Source
from electra_tf.util import console
from electra_tf.util.errors import UserError

Row = Mapping[str, int | float | np.ndarray]
"""The features of one row: name -> number, or sequence of numbers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """A built-in task; each kind adds its own fields."""

    kind: "type[Task]"
    ending: str = ".tsv"
    num_train_epochs: float | None = None
    dev_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ("test",)


class Task(abc.ABC):
    """Rows, head and metrics of a task; each kind of task is a subclass."""

    KIND: ClassVar[str]
    DEFAULT_LENGTH: ClassVar[int] = 128
    DEFAULT_EPOCHS: ClassVar[float] = 3.0
    ENDINGS: ClassVar[tuple[str, ...]] = tables.ENDINGS
    FILES_SUFFIX: ClassVar[str] = "files"

    def __init__(
        self,
        name: str,
        config: FinetuningConfig,
        tokenizer: TextTokenizer,
        *,
        longest: int,
        preset: Preset | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.config = config
        reads_columns = preset is None or not config.columns.is_custom
        self.columns = config.columns if reads_columns else ColumnsConfig()
        self.tokenizer = tokenizer
        self.preset = preset
        self.metadata = metadata or {}
        self.dev_splits = preset.dev_splits if preset else ("dev",)
        self.test_splits = preset.test_splits if preset else ("test",)
        self.directory = pathlib.Path(config.run.tasks_dir, name)
        self.bad_rows = BadRows(skip=config.task.skip_bad_rows)
        length = config.task.max_seq_length
        if length is not None and length > longest:
            raise UserError(
                f"max_seq_length={length} exceeds the encoder's {longest}."
            )
        self.max_seq_length = length or min(self.DEFAULT_LENGTH, longest)
        if not (preset or metadata):
            self._check_files()

    def _check_files(self) -> None:
        """Checks that the files of a custom task exist, with one dev split."""
        columns = self.columns
        test_file = self.config.files.test_file
        for file in (columns.train_file, columns.dev_file, test_file):
            if file and not pathlib.Path(file).exists():
                raise UserError(f"No such file: {file}")
        if columns.dev_fraction and self.source("dev").exists:
            raise UserError(
                f"Either --dev_fraction or dev rows: {self.source('dev')}"
            )

    @property
    def num_train_epochs(self) -> float:
        """Times each row is seen."""
        default = self.preset and self.preset.num_train_epochs
        given = self.config.training.num_train_epochs
        return given or default or self.DEFAULT_EPOCHS

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the head's outputs, if it has any."""
        return tuple(self.metadata.get("labels", ())) or self.get_labels()

    def get_labels(self) -> tuple[str, ...]:
        """Returns the labels or tags; empty for tasks without any."""
        return ()

    def describe(self) -> dict[str, Any]:
        """Returns the metadata that a trained model needs, for JSON."""
        return {
            "kind": self.KIND,
            "inputs": self.input_names,
            "labels": self.labels,
            "max_seq_length": self.max_seq_length,
        }

    def best_threshold(self, metrics: Mapping[str, float]) -> float | None:
        """Returns the threshold of answers that dev metrics suggest, if any."""
        del metrics
        return None

    def set_threshold(self, threshold: float | None) -> None:
        """Sets the threshold of answers, if a trial has one."""
        del threshold

    @property
    @abc.abstractmethod
    def input_names(self) -> tuple[str, ...]:
        """The names of an example's inputs, as in a JSON object to predict."""

    @property
    def input_spec(self) -> InputSpec:
        """The inputs to predict, and the files that may hold them."""
        return InputSpec(self.input_names, columns=self.columns)

    @abc.abstractmethod
    def make_example(
        self, eid: int, inputs: Sequence[str | Sequence[str]]
    ) -> Example:
        """Makes an example without a label."""

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings that the names of the task's files may have."""
        return (self.preset.ending,) if self.preset else self.ENDINGS

    def source(self, split: str) -> Source:
        """Returns the file or data set of a split, whether it exists or not."""
        return sources.find(
            self.columns, self.config.files, self.directory, split, self.endings
        )

    def existing_splits(self, splits: Iterable[str]) -> list[str]:
        """Returns those of the given splits that exist."""
        return [split for split in splits if self.source(split).exists]

    def required_source(self, split: str) -> Source:
        """Returns the file or data set of a split."""
        source = self.source(split)
        if not (source.exists or self.preset):
            hint = " or --dev_fraction" * (split == "dev")
            raise UserError(
                f"No such {split} rows: {source}. Set --{split}_file{hint}."
            )
        return source

    def class_names(self, column: str) -> tuple[str, ...]:
        """Returns the labels of `--labels`, or the classes of a data set."""
        if self.columns.labels or not self.columns.tfds_name:
            return self.columns.labels
        return prepared.class_names(str(self.source("train").path), column)

    def get_examples(self, split: str) -> Sequence[Example]:
        """Reads the examples of a split; warns of a partly labelled test
        split."""
        fraction = self.columns.dev_fraction
        uses_dev_fraction = fraction > 0 and split in ("train", "dev")
        source = self.required_source("train" if uses_dev_fraction else split)
        examples = self.read_examples(split, source)
        if uses_dev_fraction:
            rows = [self.texts_of(example) for example in examples]
            is_dev = held_out.hold_out_rows(rows, fraction)
            examples = [
                example
                for example, is_held_out in zip(examples, is_dev, strict=True)
                if is_held_out == (split == "dev")
            ]
        if not examples:
            count = self.bad_rows.counts.get(str(source.path), 0)
            raise UserError(
                f"{source.path}: no {split} rows, {count:,} bad rows."
            )
        if split in self.test_splits:
            count = sum(not example.is_labelled for example in examples)
            if 0 < count < len(examples):
                console.warn(
                    f"{source}: {count:,} of {len(examples):,} rows have no "
                    "label; the split is predicted but not scored."
                )
        return examples

    @abc.abstractmethod
    def read_examples(self, split: str, source: Source) -> Sequence[Example]:
        """Reads all rows of a source."""

    @abc.abstractmethod
    def texts_of(self, example: Example) -> tuple[str, ...]:
        """Returns the texts that must not be on both sides of a split."""

    @abc.abstractmethod
    def get_feature_specs(self) -> Sequence[FeatureSpec]:
        """Returns the columns of the rows that `featurize` makes."""

    @abc.abstractmethod
    def featurize(
        self, examples: Sequence[Example], *, is_training: bool
    ) -> Iterator[Row]:
        """Yields rows; an example may have one, several or none.

        Differs: the original featurizes example by example; the in-graph
        tokenizer is many times faster on all of them at once.
        """

    @abc.abstractmethod
    def head(self) -> Head:
        """Makes the head, with new weights."""

    @abc.abstractmethod
    def get_scorer(self) -> Scorer:
        """Returns the scorer of the head's outputs."""

    def output_files(
        self, split: str, answers: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        """Formats answers as files for other programs."""
        del split, answers
        return {}
