"""Question answering: SQuAD, and the tasks of MRQA's shared task of 2019.

Source: the original's finetune/qa/qa_tasks.py. Differs: naturalqs has the
length and the epochs of the others; the questions of a test split are
answered, too; files may be packed with gzip.
"""

import abc
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.examples import FeatureSpec
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.qa import qa_reading
from electra_tf.finetune.qa.answer_files import answer_files
from electra_tf.finetune.qa.examples import QAExample
from electra_tf.finetune.qa.qa_head import QAHead
from electra_tf.finetune.qa.qa_heads import make_head
from electra_tf.finetune.qa.qa_reading import Paragraph, Question
from electra_tf.finetune.qa.qa_rows import SPECS, RowMaker
from electra_tf.finetune.qa.qa_scorer import QAScorer, Squad2Scorer
from electra_tf.finetune.readers.reading import BadRowError, Json
from electra_tf.finetune.task import Row, Task


class QATask(Task):
    """Answers that are spans of a context.

    Raises:
      UserError: also if a row has no room for the longest question and
        `doc_stride` tokens of a context, so that windows would not overlap.

    Attributes:
      HAS_UNANSWERABLE: whether questions may have no answer.
    """

    KIND: ClassVar[str] = "question answering"
    DEFAULT_LENGTH: ClassVar[int] = 512
    DEFAULT_EPOCHS: ClassVar[float] = 2.0
    FILES: ClassVar[str] = "qa"
    HAS_UNANSWERABLE: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        config: FinetuningConfig,
        tokenizer: TextTokenizer,
        *,
        longest: int,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, config, tokenizer, longest=longest, known=known)
        config.qa.fitted(self.max_seq_length).check_room(self.max_seq_length)
        self._maker = RowMaker(tokenizer, config.qa, self.max_seq_length)
        self._threshold = config.qa.threshold(config.task.head)

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "has_unanswerable": self.has_unanswerable,
        }

    def remark(self) -> str:
        answers, lacking = self._maker.num_answers, self._maker.num_lacking
        if not answers + lacking:
            return ""
        drops = self.config.qa.drop_unanswered_windows
        kept = "are left out" if drops else "have it at [CLS]"
        return (
            f"{answers:,} of the rows hold the answer; {lacking:,} windows "
            f"that lack it {kept}."
        )

    @property
    def has_unanswerable(self) -> bool:
        """Whether questions may have no answer."""
        return self.HAS_UNANSWERABLE

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("question", "context")

    def make_example(
        self, eid: int, inputs: Sequence[str | Sequence[str]]
    ) -> QAExample:
        return qa_reading.unanswered_example(eid, *inputs)

    def get_feature_specs(self) -> tuple[FeatureSpec, ...]:
        return SPECS

    def featurize(
        self, examples: Sequence[QAExample], *, is_training: bool
    ) -> Iterator[Row]:
        return self._maker.rows(examples, is_training=is_training)

    def head(self) -> QAHead:
        return make_head(self.name, self.config.task.head, self.config.qa)

    def get_scorer(self) -> QAScorer:
        config, tokenizer = self.config.qa, self.tokenizer
        if self.has_unanswerable:
            return Squad2Scorer(config, tokenizer, threshold=self._threshold)
        return QAScorer(config, tokenizer)

    def read_file(
        self,
        split: str,
        path: pathlib.Path,
        paragraphs: Iterable[Paragraph],
        parse: Callable[[Json], Question],
    ) -> list[QAExample]:
        """Reads a file of paragraphs.

        Args:
          split: that it is of; those of a test split need no answers.
          path: of the file.
          paragraphs: of the file.
          parse: makes a question of what stands for one.

        Raises:
          UserError: naming file and question, if one cannot be used, or if
            there are none.
        """
        needs_answers = split not in self.TEST_SPLITS

        def checked(content: Json) -> Question:
            question = parse(content)
            if not self.has_unanswerable:
                question = question._replace(is_impossible=False)
            is_training = split == "train"
            there = question.places if is_training else question.answers
            if needs_answers and not (there or question.is_impossible):
                way_out = ", or `is_impossible`" * self.has_unanswerable
                raise BadRowError(
                    f"A question of {split} must have an answer{way_out}. "
                    "Received: none."
                )
            return question

        return qa_reading.read_examples(
            path,
            paragraphs,
            checked,
            bad_rows=self.bad_rows,
            is_training=split == "train",
        )

    def files(
        self, split: str, answers: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        """Writes what the official scorers read, and more; see `answer_files`.

        Args:
          split: one of `DEV_SPLITS` or `TEST_SPLITS`.
          answers: of the scorer.

        Returns:
          Name of a file -> its text. The names begin with the task's and, of a
          test split, the split's.
        """
        is_dev = split in self.DEV_SPLITS
        name = self.name if is_dev else f"{self.name}_{split}"
        threshold = self._threshold if self.has_unanswerable else None
        return answer_files(name, answers, threshold=threshold)


class FileQATask(QATask):
    """Question answering from a file of known format.

    Attributes:
      ENDING: of the names of files, which may be packed with gzip.
    """

    ENDING: ClassVar[str]

    def path(self, split: str) -> pathlib.Path:
        plain = self.directory / f"{split}{self.ENDING}"
        packed = plain.with_name(f"{plain.name}.gz")
        is_packed = packed.exists() and not plain.exists()
        return packed if is_packed else plain

    def get_examples(self, split: str) -> list[QAExample]:
        path = self.path(split)
        return self.read_file(split, path, self.paragraphs(path), self.parse)

    @abc.abstractmethod
    def paragraphs(self, path: pathlib.Path) -> Iterable[Paragraph]:
        """Returns the paragraphs of a file."""

    @abc.abstractmethod
    def parse(self, content: Json) -> Question:
        """Reads a question of a paragraph."""


class SQuADv1(FileQATask):
    """SQuAD 1.1: questions on articles of Wikipedia."""

    ENDING: ClassVar[str] = ".json"

    def paragraphs(self, path: pathlib.Path) -> Iterable[Paragraph]:
        return qa_reading.squad_paragraphs(path)

    def parse(self, content: Json) -> Question:
        return qa_reading.squad_question(content)


class SQuAD(SQuADv1):
    """SQuAD 2.0: as many of its questions have no answer."""

    HAS_UNANSWERABLE: ClassVar[bool] = True


class MRQATask(FileQATask):
    """A task of MRQA's shared task of 2019."""

    ENDING: ClassVar[str] = ".jsonl"

    def paragraphs(self, path: pathlib.Path) -> Iterable[Paragraph]:
        return qa_reading.mrqa_paragraphs(path, self.bad_rows)

    def parse(self, content: Json) -> Question:
        return qa_reading.mrqa_question(content)


TASKS: Mapping[str, type[Task]] = {
    "squad": SQuAD,
    "squadv1": SQuADv1,
    "newsqa": MRQATask,
    "naturalqs": MRQATask,
    "triviaqa": MRQATask,
    "searchqa": MRQATask,
}
