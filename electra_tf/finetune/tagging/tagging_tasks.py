"""Tagging of words, from files in CoNLL's columns or JSON lines.

Differs: the original has chunking alone, takes its tags from all splits, and
leaves out words that do not fit into a row. A word without tokens becomes [UNK]
here; in the original it shares the position of the next word. A word "[SEP]" is
treated like any other.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from electra_tf.data import tables
from electra_tf.data.answering import InputSpec
from electra_tf.data.tables import (
    CONLLU,
    JSON_LINES,
    BadRowError,
    BadRows,
    Word,
    WordColumns,
)
from electra_tf.finetune import sources
from electra_tf.finetune.examples import (
    EID,
    TOKENS,
    FeatureSpec,
    TaggedSentence,
)
from electra_tf.finetune.sources import Source
from electra_tf.finetune.tagging import tagging_rows
from electra_tf.finetune.tagging.spans import (
    find_encoding,
    get_span_labels,
    get_tags,
    is_span_tag,
)
from electra_tf.finetune.tagging.tagging_head import TaggingHead
from electra_tf.finetune.tagging.tagging_metrics import (
    AccuracyScorer,
    EntityScorer,
)
from electra_tf.finetune.task import Preset, Row, Task
from electra_tf.util.errors import UserError, listed

_COLUMNS_BY_ENDING = {
    ".txt": WordColumns(),
    ".conll": WordColumns(),
    ".tsv": WordColumns(separator="\t"),
    ".conllu": CONLLU,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingPreset(Preset):
    """A built-in task, in files with one word per line."""

    ending: str = ".txt"
    is_spans: bool = False


class _Sentence(NamedTuple):
    """A sentence with its tags as they are in the file, unchecked."""

    eid: int
    words: tuple[Word, ...]


class TaggingTask(Task):
    """A tag for each word, which encodes spans or stands for itself."""

    KIND: ClassVar[str] = "tagging"
    DEFAULT_LENGTH: ClassVar[int] = 256
    ENDINGS: ClassVar[tuple[str, ...]] = (*JSON_LINES, *_COLUMNS_BY_ENDING)
    preset: TaggingPreset | None

    @functools.cached_property
    def train_sentences(self) -> list[_Sentence]:
        """All training sentences, those that are held out included."""
        source = self.required_source("train")
        return list(self._sentences(source, needs_tags=True))

    @functools.cached_property
    def is_spans(self) -> bool:
        """Whether tags encode spans."""
        if self.preset:
            return self.preset.is_spans
        scheme = self.columns.tag_scheme
        if scheme != "auto":
            return scheme == "spans"
        if "is_spans" in self.metadata:
            return self.metadata["is_spans"]
        tags = self._training_tags
        return tags != {"O"} and all(map(is_span_tag, tags))

    @property
    def _training_tags(self) -> set[str]:
        return {str(word.tag) for x in self.train_sentences for word in x.words}

    @functools.cached_property
    def encoding(self) -> str:
        """The encoding of spans in the training rows, see `get_tags`."""
        if self.metadata:
            return self.metadata.get("encoding", "BIOES")
        return find_encoding(
            [str(word.tag) for word in x.words] for x in self.train_sentences
        )

    def describe(self) -> dict[str, Any]:
        kind = {} if self.preset else {"is_spans": self.is_spans}
        spans = {"encoding": self.encoding} if self.is_spans else {}
        return {**super().describe(), **kind, **spans}

    @functools.cached_property
    def kinds_or_tags(self) -> frozenset[str]:
        """The kinds of spans, or else the tags, that may be in a file."""
        if self.columns.labels:
            return frozenset(self.columns.labels)
        tags = self.class_names(self._columns[1]) or self._training_tags
        return frozenset(filter(None, map(self._kind_or_tag, tags)))

    def get_labels(self) -> tuple[str, ...]:
        """Returns the tags of the model: for spans, BIOES of all kinds."""
        if self.preset:
            sentences = self.get_examples("train")
            return tuple(sorted({tag for x in sentences for tag in x.tags}))
        labels = names = self.columns.labels or tuple(
            sorted(self.kinds_or_tags)
        )
        if self.columns.main_metric == "f1" and not self.is_spans:
            raise UserError(
                "`main_metric` must be accuracy where tags encode no spans. "
                f"Received: main_metric=f1, tags {', '.join(names)}."
            )
        if self.is_spans:
            pairs = itertools.product(names, "BIES")
            labels = ("O", *(f"{prefix}-{name}" for name, prefix in pairs))
        if len(labels) < 2:
            raise UserError(
                "Tagging must have at least two tags. Received: "
                f"{', '.join(labels) or 'none'} in {self.source('train')}."
            )
        return labels

    @property
    def input_names(self) -> tuple[str, ...]:
        column = self.columns.words_column
        return ("words",) if column.isdecimal() or not column else (column,)

    @property
    def input_spec(self) -> InputSpec:
        """As for training files, but .txt holds one text per line."""
        column = self.columns.words_column
        word = {"word": int(column) - 1} if column.isdecimal() else {}
        plain = {".txt"} if not self.preset else {".txt", ".tsv"}
        files = {
            ending: columns._replace(**word)
            for ending, columns in _COLUMNS_BY_ENDING.items()
            if ending not in plain
        }
        return super().input_spec._replace(takes_words=True, word_files=files)

    def make_example(
        self, eid: int, inputs: Sequence[str | Sequence[str]]
    ) -> TaggedSentence:
        """Makes an example of words, or of text to split at white space."""
        (words,) = inputs
        words = words.split() if isinstance(words, str) else words
        if not words:
            raise BadRowError(
                "A sentence must have words. Received: none. Set "
                "--input_format=conll for a file with a word in each line."
            )
        return TaggedSentence(eid, tuple(words))

    def texts_of(self, example: TaggedSentence) -> tuple[str, ...]:
        return (" ".join(example.words),)

    def read_examples(self, split: str, source: Source) -> list[TaggedSentence]:
        """Reads sentences; one with a bad tag is a bad row."""
        needs_tags = split not in self.test_splits
        sentences = (
            self.train_sentences
            if source == self.source("train")
            else self._sentences(source, needs_tags=needs_tags)
        )
        bad_rows = self.bad_rows if needs_tags else BadRows(skip=True)
        examples = []
        for eid, words in sentences:
            texts = tuple(word.text for word in words)
            tags = [word.tag for word in words]
            if None not in tags and self._are_valid(words, source, bad_rows):
                examples.append(TaggedSentence(eid, texts, self._encode(tags)))
            elif not needs_tags:
                examples.append(TaggedSentence(eid, texts))
        return examples

    def _encode(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Returns the tags of a sentence in the encoding of the model."""
        if not self.is_spans:
            return tuple(tags)
        original = self.config.task.original_spans
        spans = get_span_labels(tags, original=original)
        return tuple(get_tags(spans, len(tags)))

    def _check_tag(self, tag: str) -> None:
        """Refuses what is no tag, or is no tag of this custom task."""
        if self.is_spans and not is_span_tag(tag):
            raise BadRowError(
                "A tag must be O, or B-, I-, E- or S- and a kind, as B-PER. "
                f"Received: {tag!r}."
            )
        name = self._kind_or_tag(tag)
        if not self.preset and name and name not in self.kinds_or_tags:
            what = "A span's kind" if self.is_spans else "A tag"
            raise BadRowError(
                f"{what} must be one of {listed(sorted(self.kinds_or_tags))}. "
                f"Received: {tag!r}. Set --labels to all of them if the "
                "training rows lack some."
            )

    def _kind_or_tag(self, tag: str) -> str:
        """Returns the kind of a tag's span, or the tag."""
        return tag.partition("-")[2] if self.is_spans else tag

    def _are_valid(
        self, words: Sequence[Word], source: Source, bad_rows: BadRows
    ) -> bool:
        """Returns whether all tags of a sentence are good; counts a bad one."""
        for word in words:
            with bad_rows.at(source.path, word.place):
                self._check_tag(str(word.tag))
                continue
            return False
        return True

    def _sentences(
        self, source: Source, *, needs_tags: bool
    ) -> Iterator[_Sentence]:
        if source.ending not in _COLUMNS_BY_ENDING:
            yield from self._records(source, needs_tags)
            return

        def check(word: Word) -> None:
            if needs_tags and word.tag is None:
                raise BadRowError(
                    "A row must have a word and its tag. Received: "
                    f"{word.text!r} alone."
                )

        columns = self._conll_columns(source)
        read = tables.read_sentences(source.path, columns, self.bad_rows, check)
        yield from map(_Sentence, itertools.count(), read)

    @property
    def _columns(self) -> tuple[str, str]:
        """The names of the columns of words and tags."""
        columns = self.columns
        return columns.words_column or "words", columns.tags_column or "tags"

    def _conll_columns(self, source: Source) -> WordColumns:
        """Returns the columns of a file with one word per line."""
        columns = _COLUMNS_BY_ENDING[source.ending]
        for name, field in (("words_column", "word"), ("tags_column", "tag")):
            text = getattr(self.columns, name)
            if text and not (text.isdecimal() and int(text)):
                raise UserError(
                    f"`{name}` must be a column's number, from 1, in "
                    f"{source}. Received: {name}={text!r}."
                )
            if text:
                columns = columns._replace(**{field: int(text) - 1})
        return columns

    def _records(self, source: Source, needs_tags: bool) -> Iterator[_Sentence]:
        columns = self._columns
        needed = columns if needs_tags else columns[:1]
        records = sources.read(source, self.columns, needed, columns)
        for eid, record in enumerate(records):
            words: tuple[Word, ...] = ()
            with self.bad_rows.at(source.path, record.place):
                words = _words(record, *columns, needs_tags=needs_tags)
            if words:
                yield _Sentence(eid, words)

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
        ids = {tag: i for i, tag in enumerate(self.labels)}
        sentences = [example.words for example in examples]
        for eid, window, row in tagging_rows.rows_of(
            sentences, self.tokenizer, self.max_seq_length
        ):
            words = examples[eid].words
            tags = examples[eid].tags or [""] * len(words)
            tags = tags[window.first : window.end]
            is_known = np.array([tag in ids for tag in tags], np.float32)
            yield {
                **row,
                "eid": eid,
                "labels": np.array([ids.get(tag, 0) for tag in tags]),
                "loss_mask": row["labels_mask"] * is_known,
            }

    def head(self) -> TaggingHead:
        return TaggingHead(self.name, len(self.labels))

    def get_scorer(self) -> AccuracyScorer:
        if not self.is_spans:
            return AccuracyScorer(self.labels)
        return EntityScorer(
            self.labels,
            original_spans=self.config.task.original_spans,
            encoding=self.encoding,
            main_metric=self.columns.main_metric or "f1",
        )

    def output_files(
        self, split: str, answers: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        """Formats words, gold tags if any, and predicted tags for conlleval."""
        lines = []
        for answer in answers:
            words = [re.sub(r"\s", "_", word) for word in answer["words"]]
            columns = [words, answer["prediction"]]
            if answer["label"]:
                columns.insert(1, answer["label"])
            lines += [" ".join(row) for row in zip(*columns, strict=True)]
            lines.append("")
        return {f"{self.name}_{split}.txt": "\n".join(lines) + "\n"}


def _words(
    record: tables.Row, words_column: str, tags_column: str, *, needs_tags: bool
) -> tuple[Word, ...]:
    """Returns the words of a record, with their tags if there are any."""
    words = record.texts(words_column)
    tags: Sequence[str | None] = [None] * len(words)
    if needs_tags or record.value(tags_column, default=None):
        tags = record.texts(tags_column)
    if len(tags) != len(words):
        raise BadRowError(
            f"{tags_column!r} must have a tag for each word. Received: "
            f"{len(words)} words, {len(tags)} tags."
        )
    return tuple(
        Word(record.place, *pair) for pair in zip(words, tags, strict=True)
    )


TASKS: Mapping[str, TaggingPreset] = {
    # Phrases, as of CoNLL-2000: word, part of speech, tag.
    "chunk": TaggingPreset(kind=TaggingTask, is_spans=True),
    # Names, as of CoNLL-2003: word, part of speech, phrase, tag.
    "ner": TaggingPreset(kind=TaggingTask, is_spans=True),
    # Parts of speech, as in CoNLL-U; multiword tokens are skipped.
    "pos": TaggingPreset(kind=TaggingTask, ending=".conllu"),
    # Supertags: the word first, its tag last.
    "ccg": TaggingPreset(kind=TaggingTask),
}
KINDS = {"tagging": TaggingTask}
