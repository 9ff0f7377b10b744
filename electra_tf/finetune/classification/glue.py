"""The tasks of GLUE, as its files have them.

Differs: the original has no WNLI, evaluates MNLI on the matched dev split
alone, and passes over rows it cannot read.
"""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from electra_tf.finetune.classification.classification_metrics import (
    F1Scorer,
    MCCScorer,
)
from electra_tf.finetune.classification.classification_tasks import (
    ClassificationTask,
    RegressionTask,
    SingleOutputTask,
)
from electra_tf.finetune.classification.examples import InputExample
from electra_tf.finetune.readers import prepared
from electra_tf.finetune.readers.reading import Line, columns, read_lines
from electra_tf.finetune.task import Task
from electra_tf.util.errors import UserError

ENTAILMENT = ("entailment", "not_entailment")


class Columns(NamedTuple):
    """Where a file has what, as numbers of columns from 0.

    Attributes:
      text_a: the text, or the first of a pair.
      text_b: the second of a pair; None for single texts.
      label: None in test splits; -1 for the last column.
      num_columns: of a file without a line of names; None where there is one,
        and rows have as many columns as names.
    """

    text_a: int
    text_b: int | None = None
    label: int | None = None
    num_columns: int | None = None


class GlueTask(SingleOutputTask):
    """A task in tab-separated files.

    Attributes:
      TRAIN: columns of labelled splits.
      TEST: columns of the others.
      FEATURES: the texts as TensorFlow Datasets calls them.
      NAMES: as GLUE's files call them; none if these are the same.
      SUBMISSIONS: split -> name of the file that GLUE's server takes.
    """

    TRAIN: ClassVar[Columns]
    TEST: ClassVar[Columns]
    FEATURES: ClassVar[tuple[str, ...]] = ("sentence1", "sentence2")
    NAMES: ClassVar[tuple[str, ...]] = ()
    SUBMISSIONS: ClassVar[Mapping[str, str]]

    @property
    def file_names(self) -> tuple[str, ...]:
        return self.NAMES or self.FEATURES

    @property
    def is_pair(self) -> bool:
        return self.TRAIN.text_b is not None

    def path(self, split: str) -> pathlib.Path:
        if self.is_prepared:
            return prepared.find(self.config)
        return self.directory / f"{split}.tsv"

    @property
    def is_prepared(self) -> bool:
        """Whether rows come from TensorFlow Datasets instead of files."""
        columns = self.config.columns
        return bool(columns.tfds_name) and not columns.is_own

    def splits_there(self, splits: Iterable[str]) -> list[str]:
        if not self.is_prepared:
            return super().splits_there(splits)
        name = self.config.columns.split_of_data_set
        return [
            split
            for split in splits
            if prepared.has_split(self.path(split), name(split))
        ]

    def columns_of(self, split: str) -> Columns:
        """Returns where the file of a split has what."""
        return self.TEST if split in self.TEST_SPLITS else self.TRAIN

    def get_examples(self, split: str) -> list[InputExample]:
        if self.is_prepared:
            return self._prepared_examples(split)
        path, where = self.path(split), self.columns_of(split)
        lines, count = read_lines(path), where.num_columns
        if count is None:
            header, *lines = lines
            count = len((header.text or "").split("\t"))
        examples = []
        for eid, line in enumerate(lines):
            with self.bad_rows.at(path, line.number):
                examples.append(self._example(eid, line, where, count))
        if not examples:
            raise UserError(f"{path} must hold examples. Received: none.")
        return examples

    def _prepared_examples(self, split: str) -> list[InputExample]:
        """Reads a split of a data set, in the order of the files of GLUE."""
        directory = self.path(split)
        name = self.config.columns.split_of_data_set(split)
        needs_label = split not in self.TEST_SPLITS
        features = (*self.FEATURES, "idx", *["label"] * needs_label)
        # A label of GLUE's files is a number, or else the name of the class.
        class_names = "0" not in self.labels
        examples = []
        for record in prepared.read(
            directory, name, features, class_names=class_names
        ):
            with self.bad_rows.at(directory, record.place):
                label = None
                if needs_label:
                    label = self.parse_label(str(record.value("label")))
                texts = map(record.text, self.FEATURES)
                eid = record.value("idx")
                first, *second = texts
                example = InputExample(eid, first, *second or [None], label)
                examples.append(example)
        if not examples:
            raise UserError(f"{directory} must hold examples. Received: none.")
        return sorted(examples, key=lambda example: example.eid)

    def _example(
        self, eid: int, line: Line, where: Columns, count: int
    ) -> InputExample:
        fields = columns(line, count)
        label, text_b = None, None
        if where.label is not None:
            label = self.parse_label(fields[where.label])
        if where.text_b is not None:
            text_b = fields[where.text_b]
        return InputExample(eid, fields[where.text_a], text_b, label)

    def files(
        self, split: str, answers: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        """Makes the file that GLUE's server takes of a test split.

        Args:
          split: one of `DEV_SPLITS` or `TEST_SPLITS`.
          answers: of the scorer.

        Returns:
          Its name -> index and prediction, with a tab between; none of a dev
          split.
        """
        if split not in self.SUBMISSIONS:
            return {}
        lines = ["index\tprediction"]
        for answer in answers:
            value = answer["prediction"]
            text = value if isinstance(value, str) else f"{value:.3f}"
            lines.append(f"{answer['eid']}\t{text}")
        return {f"{self.SUBMISSIONS[split]}.tsv": "\n".join(lines) + "\n"}


class CoLA(GlueTask, ClassificationTask):
    """Is a sentence acceptable?"""

    TRAIN = Columns(3, label=1, num_columns=4)
    TEST = Columns(1)
    FEATURES = ("sentence",)
    SUBMISSIONS = {"test": "CoLA"}
    SCORER = MCCScorer

    @property
    def bare_names(self) -> tuple[str, ...]:
        return ("source", "label", "mark", *self.file_names)


class SST(GlueTask, ClassificationTask):
    """Is a sentence of a review positive?"""

    TRAIN = Columns(0, label=1)
    TEST = Columns(1)
    FEATURES = ("sentence",)
    SUBMISSIONS = {"test": "SST-2"}


class MRPC(GlueTask, ClassificationTask):
    """Do two sentences of the news say the same?"""

    TRAIN = Columns(3, 4, label=0)
    TEST = Columns(3, 4)
    NAMES = ("#1 String", "#2 String")
    SUBMISSIONS = {"test": "MRPC"}
    SCORER = F1Scorer
    IS_UNORDERED = True


class QQP(GlueTask, ClassificationTask):
    """Do two questions ask the same?"""

    TRAIN = Columns(3, 4, label=5)
    TEST = Columns(1, 2)
    FEATURES = ("question1", "question2")
    SUBMISSIONS = {"test": "QQP"}
    SCORER = F1Scorer


class STS(GlueTask, RegressionTask):
    """How much alike are two sentences, from 0 to 5?"""

    TRAIN = Columns(7, 8, label=9)
    TEST = Columns(7, 8)
    SUBMISSIONS = {"test": "STS-B"}
    RANGE = (0.0, 5.0)
    IS_UNORDERED = True
    DEFAULT_EPOCHS = 10.0


class MNLI(GlueTask, ClassificationTask):
    """Does a sentence follow from another?"""

    TRAIN = Columns(8, 9, label=-1)
    TEST = Columns(8, 9)
    SUBMISSIONS = {
        "test_matched": "MNLI-m",
        "test_mismatched": "MNLI-mm",
        "diagnostic": "AX",
    }
    FEATURES = ("premise", "hypothesis")
    NAMES = ("sentence1", "sentence2")
    DEV_SPLITS = ("dev_matched", "dev_mismatched")
    TEST_SPLITS = tuple(SUBMISSIONS)
    LABELS = ("contradiction", "entailment", "neutral")

    def columns_of(self, split: str) -> Columns:
        if split == "diagnostic":
            return Columns(1, 2)
        return super().columns_of(split)


class QNLI(GlueTask, ClassificationTask):
    """Does a sentence answer a question?"""

    TRAIN = Columns(1, 2, label=-1)
    TEST = Columns(1, 2)
    FEATURES = ("question", "sentence")
    SUBMISSIONS = {"test": "QNLI"}
    LABELS = ENTAILMENT


class RTE(QNLI):
    """Does a sentence follow from a text?"""

    FEATURES = ("sentence1", "sentence2")
    SUBMISSIONS = {"test": "RTE"}
    DEFAULT_EPOCHS = 10.0


class WNLI(QNLI):
    """Is a pronoun what the second sentence takes it for?"""

    FEATURES = ("sentence1", "sentence2")
    SUBMISSIONS = {"test": "WNLI"}
    LABELS = ("0", "1")


TASKS: Mapping[str, type[Task]] = {
    "cola": CoLA,
    "sst": SST,
    "mrpc": MRPC,
    "qqp": QQP,
    "sts": STS,
    "mnli": MNLI,
    "qnli": QNLI,
    "rte": RTE,
    "wnli": WNLI,
}
