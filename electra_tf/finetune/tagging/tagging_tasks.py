"""Tagging tasks in columns, as of the CoNLL shared tasks and CoNLL-U.

Differs: the original has chunking alone, takes its tags from all splits, and
leaves out words that do not fit into a row. A word of which the tokenizer
leaves nothing is [UNK] here; there it shares the place of the next one. A word
that reads "[SEP]" is one like any other.
"""

import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from electra_tf.finetune.examples import EID, TOKENS, FeatureSpec
from electra_tf.finetune.readers import conll
from electra_tf.finetune.readers.conll import CONLLU, Columns, Word
from electra_tf.finetune.readers.reading import BadRowError
from electra_tf.finetune.tagging import tagging_rows
from electra_tf.finetune.tagging.tagging_head import TaggingHead
from electra_tf.finetune.tagging.tagging_metrics import (
    AccuracyScorer,
    EntityScorer,
    TaggedSentence,
)
from electra_tf.finetune.tagging.tagging_utils import (
    find_encoding,
    get_span_labels,
    get_tags,
)
from electra_tf.finetune.task import Row, Task
from electra_tf.util.errors import UserError


class TaggingTask(Task):
    """One tag for each word, one word a line, an empty line between sentences.

    Attributes:
      ENDING: of the names of the files.
      COLUMNS: where they have what.
    """

    KIND: ClassVar[str] = "tagging"
    DEFAULT_LENGTH: ClassVar[int] = 256
    TAKES_WORDS: ClassVar[bool] = True
    ENDING: ClassVar[str] = ".txt"
    COLUMNS: ClassVar[Columns] = Columns()

    def path(self, split: str) -> pathlib.Path:
        return self.directory / f"{split}{self.ENDING}"

    def get_labels(self) -> tuple[str, ...]:
        """Returns the tags of the training split, sorted."""
        sentences = self.get_examples("train")
        return tuple(sorted({tag for x in sentences for tag in x.tags}))

    @property
    def input_names(self) -> tuple[str, ...]:
        return ("words",)

    @property
    def word_files(self) -> Mapping[str, Columns]:
        return {".conll": Columns(), ".conllu": CONLLU}

    def make_example(
        self, eid: int, inputs: Sequence[str | Sequence[str]]
    ) -> TaggedSentence:
        """Makes an example of words, or of text with white space between."""
        (words,) = inputs
        words = words.split() if isinstance(words, str) else words
        if not words:
            raise BadRowError("A sentence must have words. Received: none.")
        return TaggedSentence(eid, tuple(words))

    def get_examples(self, split: str) -> list[TaggedSentence]:
        path = self.path(split)
        read = conll.read(path, self.COLUMNS, self.bad_rows, check=self._check)
        sentences = [
            self._sentence(eid, words) for eid, words in enumerate(read)
        ]
        if not sentences:
            raise UserError(f"{path} must hold sentences. Received: none.")
        return sentences

    def _check(self, word: Word) -> None:
        if word.tag is None:
            raise BadRowError(
                "A row must have a word and its tag. Received: "
                f"{word.text!r} alone."
            )
        self.check_tag(word.tag)

    def check_tag(self, tag: str) -> None:
        """Refuses what is no tag.

        Raises:
          BadRowError: saying what a tag is.
        """

    def encode(self, tags: Sequence[str]) -> Sequence[str]:
        """Returns the tags of a sentence in the encoding of the model."""
        return tags

    def _sentence(self, eid: int, words: Sequence[Word]) -> TaggedSentence:
        tags = tuple(self.encode([str(word.tag) for word in words]))
        return TaggedSentence(eid, tuple(word.text for word in words), tags)

    def get_feature_specs(self) -> tuple[FeatureSpec, ...]:
        return (
            *TOKENS,
            EID,
            *tagging_rows.COLUMNS,
            FeatureSpec("labels", is_sequence=True),
            FeatureSpec("loss_mask", is_float=True, is_sequence=True),
        )

    def featurize(
        self, examples: Sequence[TaggedSentence], *, is_training: bool
    ) -> Iterator[Row]:
        sentences = [example.words for example in examples]
        for eid, window, row in tagging_rows.rows_of(
            sentences, self.tokenizer, self.max_seq_length
        ):
            words = examples[eid].words
            tags = examples[eid].tags or [""] * len(words)
            tags = tags[window.first : window.end]
            is_known = np.array([tag in self._ids for tag in tags], np.float32)
            yield {
                **row,
                "eid": eid,
                "labels": np.array([self._ids.get(tag, 0) for tag in tags]),
                "loss_mask": row["labels_mask"] * is_known,
            }

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {tag: i for i, tag in enumerate(self.labels)}

    def head(self) -> TaggingHead:
        return TaggingHead(self.name, len(self.labels))

    def get_scorer(self) -> AccuracyScorer:
        return AccuracyScorer(self.labels)

    def files(self, split: str, answers: Sequence[dict]) -> dict[str, str]:
        """Writes words, right tags if any, predicted tags, as for conlleval."""
        lines = []
        for answer in answers:
            columns = [answer["words"], answer["prediction"]]
            if answer["label"]:
                columns.insert(1, answer["label"])
            lines += [" ".join(row) for row in zip(*columns, strict=True)]
            lines.append("")
        return {f"{self.name}_{split}.txt": "\n".join(lines) + "\n"}


def check_span_tag(tag: str) -> None:
    """Refuses what says nothing about spans.

    Raises:
      BadRowError: saying what such a tag is.
    """
    place, dash, kind = tag.partition("-")
    if tag != "O" and not (place in [*"BIES"] and dash and kind):
        raise BadRowError(
            "A tag must be O, or B, I, E or S with a dash and a kind. "
            f"Received: {tag!r}."
        )


class EntityTask(TaggingTask):
    """Spans of words, whatever their encoding in the file.

    Answers are written in that of the training file.
    """

    @functools.cached_property
    def encoding(self) -> str:
        """That of the training file, see `get_tags`."""
        if self.known:
            return self.known.get("encoding", "BIOES")
        path = self.path("train")
        read = conll.read(path, self.COLUMNS, self.bad_rows, check=self._check)
        return find_encoding([str(x.tag) for x in words] for words in read)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "encoding": self.encoding}

    def check_tag(self, tag: str) -> None:
        check_span_tag(tag)

    def encode(self, tags: Sequence[str]) -> Sequence[str]:
        original = self.config.task.original_spans
        return get_tags(get_span_labels(tags, original=original), len(tags))

    def get_scorer(self) -> EntityScorer:
        original = self.config.task.original_spans
        return EntityScorer(
            self.labels, original_spans=original, encoding=self.encoding
        )


class Chunking(EntityTask):
    """Phrases, as of CoNLL-2000: word, part of speech, tag."""


class NER(EntityTask):
    """Names, as of CoNLL-2003: word, part of speech, phrase, tag."""


class CCG(TaggingTask):
    """Supertags: the word first, its tag last."""


class POS(TaggingTask):
    """Parts of speech, as of CoNLL-U; words that stand for two are no rows."""

    ENDING: ClassVar[str] = ".conllu"
    COLUMNS: ClassVar[Columns] = CONLLU


TASKS = {"chunk": Chunking, "ner": NER, "pos": POS, "ccg": CCG}
