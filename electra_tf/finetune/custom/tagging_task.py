"""A tag for every word of one's own sentences."""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from electra_tf.finetune.custom import label_warnings
from electra_tf.finetune.custom.custom_task import OwnTask, named
from electra_tf.finetune.readers import conll, sources, tables
from electra_tf.finetune.readers.conll import Columns, Word
from electra_tf.finetune.readers.reading import BadRowError
from electra_tf.finetune.readers.records import Record
from electra_tf.finetune.readers.sources import Source
from electra_tf.finetune.tagging.tagging_metrics import (
    AccuracyScorer,
    EntityScorer,
    TaggedSentence,
)
from electra_tf.finetune.tagging.tagging_tasks import (
    TaggingTask,
    check_span_tag,
)
from electra_tf.finetune.tagging.tagging_utils import (
    find_encoding,
    get_span_labels,
    get_tags,
)
from electra_tf.util.errors import UserError

_CONLL = {
    ".txt": Columns(),
    ".conll": Columns(),
    ".tsv": Columns(separator="\t"),
    ".conllu": conll.CONLLU,
}


class _Sentence(NamedTuple):
    """A sentence whose tags are still as the file has them."""

    eid: int
    words: tuple[Word, ...]


class OwnTagging(OwnTask, TaggingTask):
    """A tag for each word: spans, or words by themselves."""

    ENDINGS: ClassVar[tuple[str, ...]] = (*tables.JSON_LINES, *_CONLL)

    @functools.cached_property
    def train_sentences(self) -> list[_Sentence]:
        """All training sentences, those that are held out included."""
        return self._sentences(self.source_there("train"), needs_tags=True)

    @functools.cached_property
    def is_spans(self) -> bool:
        """Whether tags say where spans are."""
        scheme = self.columns.tag_scheme
        if scheme != "auto":
            return scheme == "spans"
        if "is_spans" in self.known:
            return self.known["is_spans"]
        tags = {word.tag for x in self.train_sentences for word in x.words}
        return tags != {"O"} and all(map(_is_span_tag, tags))

    @functools.cached_property
    def encoding(self) -> str:
        """That of the spans in the training rows, see `get_tags`."""
        if self.known:
            return self.known.get("encoding", "BIOES")
        return find_encoding(
            [str(word.tag) for word in x.words] for x in self.train_sentences
        )

    def describe(self) -> dict[str, Any]:
        spans = {"encoding": self.encoding} if self.is_spans else {}
        return {**super().describe(), "is_spans": self.is_spans, **spans}

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The kinds of spans, or else the tags, that may be in a file."""
        if self.columns.labels:
            return frozenset(self.columns.labels)
        _, column = self._columns
        told = self.given_labels(column)
        rows = (w.tag for x in self.train_sentences for w in x.words)
        return frozenset(filter(None, map(self._name, {*(told or rows)})))

    def get_labels(self) -> tuple[str, ...]:
        """Returns the tags of the model, for spans those of all kinds.

        Raises:
          UserError: if there are too few, or no spans for their F1.
        """
        names = self.columns.labels or tuple(sorted(self.names))
        labels = names
        if self.columns.main_metric == "f1" and not self.is_spans:
            raise UserError(
                "`main_metric` must be accuracy where tags are no spans. "
                f"Received: main_metric=f1, tags {', '.join(names)}."
            )
        if self.is_spans:
            labels = ("O", *(f"{p}-{name}" for name in names for p in "BIES"))
        if len(labels) < 2:
            raise UserError(
                "Tagging must have two tags or more. Received: "
                f"{', '.join(labels) or 'none'} in {self.source('train')}."
            )
        return labels

    def remark(self) -> str:
        what = "Spans" if self.is_spans else "Tags"
        return f"{what}: {named(sorted(self.names))}."

    def warnings(self) -> list[str]:
        return label_warnings.of_names(sorted(self.names))

    @property
    def input_names(self) -> tuple[str, ...]:
        column = self.columns.words_column
        return ("words",) if column.isdecimal() or not column else (column,)

    @property
    def word_files(self) -> Mapping[str, Columns]:
        """As training files; but .txt is a text a line to be answered."""
        column = self.columns.words_column
        word = {"word": int(column) - 1} if column.isdecimal() else {}
        return {
            ending: columns._replace(**word)
            for ending, columns in _CONLL.items()
            if ending != ".txt"
        }

    @property
    def _columns(self) -> tuple[str, str]:
        """The names of the columns of words and tags."""
        columns = self.columns
        return columns.words_column or "words", columns.tags_column or "tags"

    def text_of(self, example: TaggedSentence) -> str:
        return " ".join(example.words)

    def read_examples(self, split: str, source: Source) -> list[TaggedSentence]:
        needs_tags = split not in self.TEST_SPLITS
        sentences = (
            self.train_sentences
            if source == self.source("train")
            else self._sentences(source, needs_tags=needs_tags)
        )
        examples = []
        for eid, words in sentences:
            texts = tuple(word.text for word in words)
            tags = [word.tag for word in words]
            if None in tags or not (needs_tags or self._knows(words)):
                examples.append(TaggedSentence(eid, texts))
            elif self._is_good(source, words):
                examples.append(TaggedSentence(eid, texts, self.encode(tags)))
        return examples

    def encode(self, tags: Sequence[str]) -> tuple[str, ...]:
        if not self.is_spans:
            return tuple(tags)
        original = self.config.task.original_spans
        spans = get_span_labels(tags, original=original)
        return tuple(get_tags(spans, len(tags)))

    def check_tag(self, tag: str) -> None:
        if self.is_spans:
            check_span_tag(tag)
        name = self._name(tag)
        if name and name not in self.names:
            what = "A span's kind" if self.is_spans else "A tag"
            raise BadRowError(
                f"{what} must be one of {named(sorted(self.names))}. "
                f"Received: {tag!r}. Give all of them by --labels if the "
                "training rows lack some."
            )

    def get_scorer(self) -> AccuracyScorer:
        if not self.is_spans:
            return AccuracyScorer(self.labels)
        original = self.config.task.original_spans
        scorer = EntityScorer(
            self.labels, original_spans=original, encoding=self.encoding
        )
        scorer.main_metric = self.columns.main_metric or scorer.main_metric
        return scorer

    def _name(self, tag: str) -> str:
        """Returns the kind of a tag's span, or the tag."""
        return tag.partition("-")[2] if self.is_spans else tag

    def _knows(self, words: Sequence[Word]) -> bool:
        """Says whether all tags are known; those of test rows may be others."""
        try:
            for word in words:
                self.check_tag(str(word.tag))
        except BadRowError:
            return False
        return True

    def _is_good(self, source: Source, words: Sequence[Word]) -> bool:
        """Checks the tags of a sentence, which is left out for a bad one."""
        for word in words:
            is_good = False
            with self.bad_rows.at(source.path, word.place):
                self.check_tag(str(word.tag))
                is_good = True
            if not is_good:
                return False
        return True

    def _sentences(
        self, source: Source, *, needs_tags: bool
    ) -> list[_Sentence]:
        is_conll = source.ending in _CONLL
        read = self._conll if is_conll else self._records
        return list(read(source, needs_tags))

    def _conll(self, source: Source, needs_tags: bool) -> Iterator[_Sentence]:
        columns = _CONLL[source.ending]
        for name, field in (("words_column", "word"), ("tags_column", "tag")):
            text = getattr(self.columns, name)
            if text and not (text.isdecimal() and int(text)):
                raise UserError(
                    f"`{name}` must be a column's number, from 1, in "
                    f"{source}. Received: {name}={text!r}."
                )
            if text:
                columns = columns._replace(**{field: int(text) - 1})

        def check(word: Word) -> None:
            if needs_tags and word.tag is None:
                raise BadRowError(
                    "A row must have a word and its tag. Received: "
                    f"{word.text!r} alone."
                )

        read = conll.read(source.path, columns, self.bad_rows, check=check)
        yield from map(_Sentence, itertools.count(), read)

    def _records(self, source: Source, needs_tags: bool) -> Iterator[_Sentence]:
        columns = self._columns
        needed = columns if needs_tags else columns[:1]
        records = sources.read(source, self.config, needed, columns)
        for eid, record in enumerate(records):
            words: tuple[Word, ...] = ()
            with self.bad_rows.at(source.path, record.place):
                words = _words(record, *columns, needs_tags=needs_tags)
            if words:
                yield _Sentence(eid, words)


def _words(
    record: Record, words_column: str, tags_column: str, *, needs_tags: bool
) -> tuple[Word, ...]:
    words = record.texts(words_column)
    tags: Sequence[str | None] = [None] * len(words)
    if needs_tags or (record.has(tags_column) and record.value(tags_column)):
        tags = record.texts(tags_column)
    if len(tags) != len(words):
        raise BadRowError(
            f"{tags_column!r} must have a tag for each word. Received: "
            f"{len(words)} words, {len(tags)} tags."
        )
    return tuple(
        Word(record.place, *pair) for pair in zip(words, tags, strict=True)
    )


def _is_span_tag(tag: str | None) -> bool:
    try:
        check_span_tag(str(tag))
    except BadRowError:
        return False
    return True


KINDS = {"tagging": OwnTagging}
