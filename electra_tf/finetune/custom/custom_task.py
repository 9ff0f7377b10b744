"""What all tasks of one's own have in common: where their rows are from."""

import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.examples import Example
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.readers import prepared, sources, tables
from electra_tf.finetune.readers.sources import Source
from electra_tf.finetune.task import Task
from electra_tf.util.errors import UserError

_MOST_NAMED = 20
_WAYS_OUT = (
    "Set --dev_file; or --dev_fraction=0.1 to hold out a tenth of the training "
    "rows; or --nodo_eval --checkpoint=last to do without."
)


class OwnTask(Task):
    """A task whose files a configuration names.

    Args:
      name: of the task, of its directory and of its head.
      config: the whole configuration.
      tokenizer: of the encoder's vocabulary.
      longest: tokens in the longest row that the encoder can read.
      known: see `Task`; then no file is asked for.

    Raises:
      UserError: if a file that is named is not there, or if dev rows are in
        two places.

    Attributes:
      ENDINGS: that its files may have.
    """

    ENDINGS: ClassVar[tuple[str, ...]] = tables.ENDINGS

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
        self.columns = columns = config.columns
        self._sources: dict[str, Source] = {}
        if known:  # a trained model does without
            return
        given = (columns.train_file, columns.dev_file, config.files.test_file)
        for file in filter(None, given):
            if not pathlib.Path(file).expanduser().exists():
                raise UserError(
                    f"{file} must be a file of the task {name}. Received: No "
                    "such file or directory."
                )
        if self.holds_out and self.source("dev").exists:
            raise UserError(
                "`dev_fraction` must be 0 where there are dev rows. Received: "
                f"dev_fraction={columns.dev_fraction:g}, and "
                f"{self.source('dev')}. Leave --dev_fraction out."
            )

    def path(self, split: str) -> pathlib.Path:
        return self.source(split).path

    def source(self, split: str) -> Source:
        """Returns where the rows of a split are, be they there or not.

        Raises:
          UserError: as `sources.find`.
        """
        if split not in self._sources:
            self._sources[split] = sources.find(
                self.config, self.name, split, self.ENDINGS
            )
        return self._sources[split]

    def source_there(self, split: str) -> Source:
        """Returns where the rows of a split are.

        Raises:
          UserError: if they are not there, with the ways out.
        """
        source = self.source(split)
        if source.exists:
            return source
        received = f"no {source}"
        if not source.split:
            received += f", nor one that ends in {', '.join(self.ENDINGS[1:])}"
        ways_out = _WAYS_OUT if split == "dev" else f"Set --{split}_file."
        if source.split:
            ways_out = f"Set --tfds_splits={split}=... Or: {ways_out}"
        raise UserError(
            f"{self.name} must have {split} rows. Received: {received}. "
            f"{ways_out}"
        )

    def splits_there(self, splits: Iterable[str]) -> list[str]:
        return [split for split in splits if self.source(split).exists]

    @property
    def holds_out(self) -> bool:
        """Whether the dev rows are a part of those of the training file."""
        return self.columns.dev_fraction > 0

    def given_labels(self, column: str) -> tuple[str, ...]:
        """Returns the labels that are told; none if only the rows tell them.

        Args:
          column: that holds them.
        """
        if self.columns.labels or not self.columns.tfds_name:
            return self.columns.labels
        return prepared.class_names(self.path("train"), column)

    def get_examples(self, split: str) -> Sequence[Example]:
        is_part = self.holds_out and split in ("train", "dev")
        source = self.source_there("train" if is_part else split)
        examples = self.read_examples(split, source)
        if is_part:
            fraction, is_dev = self.columns.dev_fraction, split == "dev"
            examples = [
                example
                for example in examples
                if (_share(self.text_of(example)) < fraction) == is_dev
            ]
        if not examples:
            raise UserError(self._no_examples(split, source, is_part))
        return examples

    def _no_examples(self, split: str, source: Source, is_part: bool) -> str:
        count = self.bad_rows.counts.get(str(source.path), 0)
        received = f"none, and {count:,} bad rows" if count else "none"
        text = f"{source.path} must hold {split} rows. Received: {received}."
        return text + " Set another --dev_fraction." * is_part

    def read_examples(self, split: str, source: Source) -> Sequence[Example]:
        """Reads all rows of a source.

        Args:
          split: that they are for; those of test splits need no labels.
          source: where they are.

        Raises:
          UserError: naming file and line of what cannot be read.
        """
        raise NotImplementedError

    def text_of(self, example: Example) -> str:
        """Returns what decides whether a training row is held out."""
        raise NotImplementedError


def named(names: Sequence[str]) -> str:
    """Names things, of many the first."""
    text = ", ".join(names[:_MOST_NAMED])
    rest = len(names) - _MOST_NAMED
    return text + (f" and {rest} others" if rest > 0 else "")


def _share(text: str) -> float:
    """Returns a number in [0, 1) that depends on a text alone."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
