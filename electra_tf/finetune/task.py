"""What a task is: data to learn from, a head, and metrics.

A task subclasses `Task`, and one line in `task_builder.py` registers it.
"""

import abc
import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.examples import Example, FeatureSpec
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.readers.reading import BadRows
from electra_tf.finetune.scorer import Scorer
from electra_tf.model.modeling import EncoderOutput
from electra_tf.util.errors import UserError

Row = Mapping[str, int | float | np.ndarray]
"""The features of one row: name -> number, or sequence of numbers."""


class Head(keras.layers.Layer, abc.ABC):
    """What stands on the encoder; its name is the task's.

    Call arguments:
      states: an `EncoderOutput`.
      features: name -> tensor [B, ...], the task's columns; of a head that
        needs none, may be empty.
      keys: uint32 [B], one random key a row; None switches dropout off.

    Returns:
      Name -> tensor [B, ...].
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, dtype="float32")

    @abc.abstractmethod
    def call(
        self,
        states: EncoderOutput,
        features: Mapping[str, tf.Tensor],
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Computes the outputs; see the class."""

    @abc.abstractmethod
    def losses(
        self,
        outputs: Mapping[str, tf.Tensor],
        features: Mapping[str, tf.Tensor],
    ) -> tf.Tensor:
        """Computes the loss of each row.

        Args:
          outputs: of `call`.
          features: with the labels.

        Returns:
          float32 [B].
        """


class Task(abc.ABC):
    """Data, head and metrics of a task.

    Args:
      name: of the task, of its directory and of its head.
      config: the whole configuration.
      tokenizer: of the encoder's vocabulary.
      longest: tokens in the longest row that the encoder can read.
      known: what `describe` returned when a model was trained, which then
        needs no data.

    Raises:
      UserError: if the configuration asks for longer rows.

    Attributes:
      bad_rows: what to do about rows that cannot be read, and how many there
        were.
      max_seq_length: tokens in the longest row.
      DEV_SPLITS: labelled splits to evaluate on; the first chooses among
        checkpoints, others may be missing.
      TEST_SPLITS: splits to predict, those that are there.
      KIND: what is learned: "classification", "regression", "tagging" or
        "question answering".
      FILES: ends the name of the directory, results/<task>_<FILES>, of the
        files of dev splits.
      TAKES_WORDS: whether what is to be answered may be a sequence of words
        in the place of a text.
    """

    KIND: ClassVar[str]
    DEFAULT_LENGTH: ClassVar[int] = 128
    DEFAULT_EPOCHS: ClassVar[float] = 3.0
    DEV_SPLITS: ClassVar[tuple[str, ...]] = ("dev",)
    TEST_SPLITS: ClassVar[tuple[str, ...]] = ("test",)
    FILES: ClassVar[str] = "files"
    TAKES_WORDS: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        config: FinetuningConfig,
        tokenizer: TextTokenizer,
        *,
        longest: int,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.tokenizer = tokenizer
        self.directory = pathlib.Path(config.run.tasks_dir, name)
        self.bad_rows = BadRows(skip=config.task.skip_bad_rows)
        length = config.task.max_seq_length
        if length is not None and length > longest:
            raise UserError(
                f"`max_seq_length` must be at most {longest}, the number of "
                "position embeddings of the encoder. Received: "
                f"max_seq_length={length}."
            )
        self.max_seq_length = length or min(self.DEFAULT_LENGTH, longest)
        self.known = known or {}

    @property
    def num_train_epochs(self) -> float:
        """Times each row is seen."""
        return self.config.training.num_train_epochs or self.DEFAULT_EPOCHS

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the head's outputs, if it has any."""
        return tuple(self.known.get("labels", ())) or self.get_labels()

    def get_labels(self) -> tuple[str, ...]:
        """Returns the labels of a classification; none of other tasks.

        It may read the training data.
        """
        return ()

    def describe(self) -> dict[str, Any]:
        """Returns what a trained model must know of its data, for JSON.

        The configuration is not part of it. A class that learns more from
        the data adds it here, and looks for it in `known`.
        """
        return {
            "kind": self.KIND,
            "inputs": self.input_names,
            "labels": self.labels,
            "max_seq_length": self.max_seq_length,
        }

    def remark(self) -> str:
        """Returns what a run should say of the data, a sentence or nothing."""
        return ""

    def warnings(self) -> list[str]:
        """Returns sentences about what in the data looks like a slip."""
        return []

    @property
    @abc.abstractmethod
    def input_names(self) -> tuple[str, ...]:
        """What is given to be answered, as a JSON object names it.

        For example ("text",), or ("question", "context").
        """

    @property
    def file_names(self) -> tuple[str, ...]:
        """The inputs' names in the first line of the task's own tables."""
        return ()

    @property
    def bare_names(self) -> tuple[str, ...]:
        """All columns of those of its tables whose first line is a row."""
        return ()

    @property
    def word_files(self) -> Mapping[str, Any]:
        """Ending -> `conll.Columns`, of files with a word a line."""
        return {}

    @abc.abstractmethod
    def make_example(
        self, eid: int, inputs: Sequence[str | Sequence[str]]
    ) -> Example:
        """Makes an example without a label.

        Args:
          eid: its number.
          inputs: one for each of `input_names`.

        Raises:
          BadRowError: if it cannot be answered.
        """

    @abc.abstractmethod
    def path(self, split: str) -> pathlib.Path:
        """Returns the file of a split, whether it is there or not."""

    @abc.abstractmethod
    def get_examples(self, split: str) -> Sequence[Example]:
        """Reads the examples of a split.

        Args:
          split: "train", or one of `DEV_SPLITS` or `TEST_SPLITS`.

        Raises:
          UserError: naming file and line of what cannot be read.
        """

    @abc.abstractmethod
    def get_feature_specs(self) -> Sequence[FeatureSpec]:
        """Returns the columns of the rows that `featurize` makes."""

    @abc.abstractmethod
    def featurize(
        self, examples: Sequence[Example], *, is_training: bool
    ) -> Iterator[Row]:
        """Yields rows: one of an example, or several, or none.

        Differs: the original asks example by example; the tokenizer in the
        graph is many times faster on all of them.

        Args:
          examples: of one split.
          is_training: whether the rows are to learn from.
        """

    @abc.abstractmethod
    def head(self) -> Head:
        """Makes the head, with new weights."""

    @abc.abstractmethod
    def get_scorer(self) -> Scorer:
        """Returns what judges the outputs of the head."""

    def files(
        self, split: str, answers: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        """Writes answers as other programs read them.

        Args:
          split: one of `DEV_SPLITS` or `TEST_SPLITS`.
          answers: of the scorer.

        Returns:
          Name of a file -> its text; none of a split that no program asks
          for.
        """
        del split, answers
        return {}

    def splits_there(self, splits: Iterable[str]) -> list[str]:
        """Returns those of some splits that have a file."""
        return [split for split in splits if self.path(split).exists()]
