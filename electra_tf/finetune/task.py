"""A task: where its rows are, how they are read, its head and its metrics.

A task consists of a reader and one of four kinds, each a subclass of `Task`.
What it reads is defined by a `Preset` for a built-in task
(`task_builder.TASKS`), and by flags for a custom task (`--task_kind`).
"""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import (
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, ClassVar, NamedTuple, Self

import keras
import tensorflow as tf

from electra_tf.config.columns import ColumnsConfig
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.data import prepared_datasets, selection, tables
from electra_tf.data.answering import InputSpec
from electra_tf.data.tables import BadRows, Layout
from electra_tf.finetune.preprocessing import Example, Row, TextTokenizer
from electra_tf.finetune.scorer import Answers, Metrics, Outputs
from electra_tf.model.modeling import EncoderOutput
from electra_tf.util.errors import UserError

HEADS = ("electra", "hugging_face")
Tensors = Mapping[str, tf.Tensor]


class Head(keras.layers.Layer, abc.ABC):
    """Output layers on the encoder; its name is the task's."""

    UNSCORED: ClassVar[tuple[str, ...]] = ()  # outputs that no metric reads

    def __init__(self, name: str, kind: str = "electra") -> None:
        super().__init__(name=name, dtype="float32")
        if kind not in HEADS:
            raise ValueError(f"head={kind!r} is none of {HEADS}.")
        self.kind = kind

    @abc.abstractmethod
    def call(
        self,
        states: EncoderOutput,
        features: Tensors,  # [B, ...]
        keys: tf.Tensor | None = None,  # [B]
    ) -> dict[str, tf.Tensor]:
        """Computes the outputs, [B, ...] each; see the class."""

    def build_for(self, hidden_size: int) -> Self:
        """Creates the weights, under the original's names."""
        with keras.name_scope("task_specific"):
            self.build((None, hidden_size))
        return self

    @abc.abstractmethod
    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        """Computes the loss of each row, [B]."""


class Source(NamedTuple):
    """The rows of a split: a file, or a split of a prepared data set."""

    path: pathlib.Path
    split: str = ""

    def __str__(self) -> str:
        return f"{self.path}{self.split and ', split ' + self.split}"

    @property
    def exists(self) -> bool:
        """True if the file or the split exists."""
        if self.split:
            return prepared_datasets.has_split(str(self.path), self.split)
        return self.path.exists()

    @property
    def ending(self) -> str:
        """The ending of the file's name; "" for a data set."""
        return "" if self.split else tables.file_ending(self.path)

    def read(
        self,
        columns: ColumnsConfig,
        required: Collection[str] = (),
        optional: Collection[str] = (),
        *,
        layout: Layout | None = None,
    ) -> Iterable[tables.Row]:
        """Reads the rows, including bad ones."""
        if self.split:
            return prepared_datasets.read_rows(
                str(self.path), self.split, required, optional
            )
        return tables.read_rows(self.path, required, columns, layout=layout)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """A built-in task; `columns` are its fields of `ColumnsConfig`."""

    kind: "type[Task]"
    ending: str = ".tsv"
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)
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
    threshold: float | None = None  # of answers, if there may be none
    threshold_metric = ""  # the dev metric that is the best threshold, if any

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
        self.columns = config.columns
        self.tokenizer = tokenizer
        self.preset = preset
        self.metadata = metadata or {}
        self.dev_splits, self.test_splits = ("dev",), ("test",)
        if preset:
            custom = config.columns.is_custom  # of another task
            columns = ColumnsConfig() if custom else config.columns
            self.columns = dataclasses.replace(columns, **preset.columns)
            self.dev_splits = preset.dev_splits
            self.test_splits = preset.test_splits
        self.directory = pathlib.Path(
            config.run.data_dir, "finetuning_data", name
        )
        self.bad_rows = BadRows(skip=config.task.skip_bad_rows)
        length = config.task.max_seq_length
        if length is not None and length > longest:
            raise UserError(
                f"max_seq_length={length} exceeds the encoder's {longest}."
            )
        self.max_seq_length = length or min(self.DEFAULT_LENGTH, longest)
        default = preset and preset.num_train_epochs
        given = config.training.num_train_epochs
        self.num_train_epochs = given or default or self.DEFAULT_EPOCHS

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the head's outputs, if it has any."""
        return tuple(self.metadata.get("labels", ())) or self.get_labels()

    def get_labels(self) -> tuple[str, ...]:
        """Returns the labels or tags; empty for tasks without any."""
        return ()

    def class_names(self, column: str) -> tuple[str, ...]:
        """Returns the labels of `--labels`, or the classes of a data set."""
        if self.columns.labels or not self.columns.tfds_name:
            return self.columns.labels
        return prepared_datasets.class_names(
            str(self.source("train").path), column
        )

    def describe(self) -> dict[str, Any]:
        """Returns the metadata that a trained model needs, for JSON."""
        return {
            "kind": self.KIND,
            "inputs": self.input_names,
            "labels": self.labels,
            "max_seq_length": self.max_seq_length,
        }

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

    def source(self, split: str) -> Source:
        """Returns the file or data set of a split, whether it exists or not."""
        columns = self.columns
        file = {
            "train": columns.train_file,
            "dev": columns.dev_file,
            "test": self.config.run.test_file,
        }.get(split)
        if file and columns.is_custom:
            return Source(pathlib.Path(file))
        if name := columns.tfds_name:
            path = pathlib.Path(prepared_datasets.find_data_set(name))
            names = dict(text.split("=", 1) for text in columns.tfds_splits)
            default = split.replace("dev", "validation", 1)
            return Source(path, names.get(split, default))
        endings = (self.preset.ending,) if self.preset else self.ENDINGS
        paths = [
            self.directory / f"{split}{ending}{compression}"
            for ending in endings
            for compression in ("", *tables.COMPRESSIONS)
        ]
        existing = [path for path in paths if path.exists()]
        if len(existing) > 1 and columns.is_custom:
            names = ", ".join(map(str, existing))
            raise UserError(f"Select one of {names} by --{split}_file.")
        return Source([*existing, paths[0]][0])

    def get_examples(self, split: str) -> Sequence[Example]:
        """Reads the examples of a split."""
        fraction = self.columns.dev_fraction
        is_fraction = fraction > 0 and split in ("train", "dev")
        if is_fraction and self.source("dev").exists:
            raise UserError(f"Drop --dev_fraction, or {self.source('dev')}.")
        source = self.source("train" if is_fraction else split)
        examples = self.read_examples(split, source)
        if is_fraction:
            texts = [self.texts_of(example) for example in examples]
            is_dev = selection.hold_out_rows(texts, fraction)
            pairs = zip(examples, is_dev, strict=True)
            examples = [x for x, in_dev in pairs if in_dev == (split == "dev")]
        if not examples:
            raise UserError(f"{source} has no {split} rows that can be read.")
        return examples

    @abc.abstractmethod
    def read_examples(self, split: str, source: Source) -> Sequence[Example]:
        """Reads all rows of a source."""

    @functools.cached_property
    def train_rows(self) -> list[Any]:
        """The rows to train on, which may determine labels."""
        return self.read_rows("train", self.source("train"))

    def rows_of_source(self, split: str, source: Source) -> list[Any]:
        """Returns the rows of a source; those to train on are read once."""
        is_train = source == self.source("train")
        return self.train_rows if is_train else self.read_rows(split, source)

    @abc.abstractmethod
    def texts_of(self, example: Example) -> tuple[str, ...]:
        """Returns the texts that must not be on both sides of a split."""

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

    @property
    @abc.abstractmethod
    def main_metric(self) -> str:
        """The metric that selects checkpoints."""

    @abc.abstractmethod
    def score(self, outputs: Outputs, examples: Sequence[Example]) -> Metrics:
        """Computes the metrics of a labelled split, and its loss."""

    @abc.abstractmethod
    def answers(self, outputs: Outputs, examples: Sequence[Example]) -> Answers:
        """Returns the prediction for each example."""

    @abc.abstractmethod
    def is_constant(self, outputs: Outputs) -> bool:
        """Returns whether all rows have the same answer."""

    def labels_of(self, example: Example) -> Iterable[Hashable]:
        """Returns the gold labels of an example."""
        return (example.label,)

    def is_degenerate(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> bool:
        """Returns whether all rows get one answer although labels differ."""
        labels = {label for x in examples for label in self.labels_of(x)}
        return len(labels) > 1 and self.is_constant(outputs)

    @abc.abstractmethod
    def output_files(self, split: str, answers: Answers) -> dict[str, str]:
        """Formats answers as files for other programs: name -> content."""
