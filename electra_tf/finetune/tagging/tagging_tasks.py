"""Tagging of words, from files in CoNLL's columns or JSON lines.

Differs: the original has chunking alone, takes its tags from all splits, and
leaves out words that do not fit into a row. A word without tokens becomes [UNK]
here; in the original it shares the position of the next word.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from electra_tf.data import tables
from electra_tf.data.answering import InputSpec
from electra_tf.data.tables import (
    CONLLU,
    JSON_LINES,
    BadRowError,
    Word,
    WordColumns,
)
from electra_tf.finetune.preprocessing import (
    Row,
    TaggedSentence,
    TextTokenizer,
    join,
)
from electra_tf.finetune.scorer import (
    Answers,
    Metrics,
    Outputs,
    Span,
    get_span_labels,
    tagging_metrics,
)
from electra_tf.finetune.task import Head, Preset, Source, Task, Tensors
from electra_tf.model import layers, tensor_ops
from electra_tf.model.modeling import EncoderOutput
from electra_tf.util import console
from electra_tf.util.errors import UserError, listed

COLUMNS = ("first_word", "labels_mask", "labeled_positions")
"""Columns besides tokens; the last one holds the position of the first token
of each word."""

_COLUMNS_BY_ENDING = {
    **dict.fromkeys((".txt", ".conll", ".tsv"), WordColumns()),
    ".conllu": CONLLU,
}

Examples = Sequence[TaggedSentence]
_Sentences = list[tuple[Word, ...]]


class TaggingHead(Head):
    """Scores the C tags of each word by its first token; no dropout.

    Hugging Face's token classification is the same function.
    """

    UNSCORED: ClassVar[tuple[str, ...]] = ("logits",)

    def __init__(self, name: str, num_tags: int) -> None:
        super().__init__(name=name)
        self.num_tags = num_tags
        self.dense = layers.Linear(num_tags, None, name="dense")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.dense.build(input_shape)

    def call(
        self,
        states: EncoderOutput,
        features: Tensors,
        keys: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        words = tensor_ops.gather_positions(
            states.sequence_output, features["labeled_positions"]
        )  # [B, L, H]
        logits = self.dense(words)  # [B, L, C]
        outputs = {
            "logits": logits,
            "predictions": tf.argmax(logits, -1, tf.int32),  # [B, L]
            "confidences": tf.reduce_max(tf.nn.softmax(logits), -1),
        }
        for name in {"labels_mask", "first_word"} & {*features}:
            outputs[name] = features[name]  # for the scorer
        return outputs

    def losses(self, outputs: Tensors, features: Tensors) -> tf.Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["labels"], outputs["logits"]
        )
        return tf.reduce_sum(losses * features["loss_mask"], -1)


def rows_of(
    sentences: Sequence[Sequence[str]],
    tokenizer: TextTokenizer,
    max_seq_length: int,
) -> Iterator[tuple[int, slice, Row]]:
    """Yields the number of a sentence, a window of its words, and its row."""
    window_size = max_seq_length - 2
    unknown = np.array([tokenizer.vocabulary.unk_id])
    tokens = iter(tokenizer.tokenize([*itertools.chain(*sentences)]))
    for number, sentence in enumerate(sentences):
        words = itertools.islice(tokens, len(sentence))
        pieces = [ids[:window_size] if ids.size else unknown for ids in words]
        for first, end, first_scored, end_scored in get_windows(
            [len(ids) for ids in pieces], window_size
        ):
            part = pieces[first:end]
            row = join(tokenizer.vocabulary, np.concatenate(part))
            row["segment_ids"] = np.ones_like(row["segment_ids"])
            row["first_word"] = first
            mask = np.zeros(len(part), np.float32)
            mask[first_scored - first : end_scored - first] = 1
            row["labels_mask"] = mask
            starts = np.cumsum([1, *map(len, part)])  # behind [CLS]
            row["labeled_positions"] = starts[:-1]
            yield number, slice(first, end), row


def get_windows(
    sizes: Sequence[int], window_size: int
) -> list[tuple[int, int, int, int]]:
    """Covers a sentence with windows: first word and end, of all and scored.

    Each word is scored once, where it has more context.
    """

    def end_of(first: int) -> int:
        fits = np.cumsum(sizes[first:]) <= window_size
        return first + int(fits.sum())

    spans = [(0, end_of(0))]
    while spans[-1][1] < len(sizes):
        before, end = spans[-1]
        overlap = min(window_size // 4, window_size - sizes[end])
        first, used = end, 0
        while first - 1 > before and used + sizes[first - 1] <= overlap:
            first -= 1
            used += sizes[first]
        spans.append((first, end_of(first)))
    cuts = [
        (end + first) // 2 for (_, end), (first, _) in itertools.pairwise(spans)
    ]
    scored = zip([0, *cuts], [*cuts, len(sizes)], strict=True)
    return [(*span, *part) for span, part in zip(spans, scored, strict=True)]


_BIOES = {"L": "E", "U": "S"}  # from BILOU
_is_span_tag = re.compile("(?s)O|[BIESLU]-.+").fullmatch
_is_like_one = re.compile("(?is)O|[BIESLU]-.+|.+-[BIESLU]").fullmatch


def get_tags(spans: Sequence[Span], length: int) -> list[str]:
    """Encodes spans as tags, in BIOES."""
    tags = ["O"] * length
    for first, last, kind in spans:
        inside = "I" * (last - first - 1)
        prefixes = "S" if first == last else f"B{inside}E"
        tags[first : last + 1] = [f"{prefix}-{kind}" for prefix in prefixes]
    return tags


class TaggingTask(Task):
    """A tag for each word, which encodes spans or stands for itself."""

    KIND: ClassVar[str] = "tagging"
    DEFAULT_LENGTH: ClassVar[int] = 256
    ENDINGS: ClassVar[tuple[str, ...]] = (*JSON_LINES, *_COLUMNS_BY_ENDING)

    @property
    def _train_tags(self) -> set[str]:
        tags = {word.tag for words in self.train_rows for word in words}
        return tags - {None}

    @functools.cached_property
    def is_spans(self) -> bool:
        """True if tags encode spans."""
        if self.columns.tag_scheme != "auto":
            return self.columns.tag_scheme == "spans"
        if "is_spans" in self.metadata:
            return self.metadata["is_spans"]
        tags = self._train_tags
        is_spans = tags != {"O"} and all(map(_is_span_tag, tags))
        if tags and all(map(str.isdecimal, tags)) and not self.columns.labels:
            raise UserError(
                f"The tags {listed(sorted(tags))} need their names in order, "
                "as --labels=O,B-PER,I-PER, or --tag_scheme=tags."
            )
        if tags != {"O"} and not is_spans and all(map(_is_like_one, tags)):
            console.warn(
                f"{self.name} is scored by accuracy, as for --tag_scheme=tags: "
                f"{listed(sorted(tags))} are not spans, such as B-PER and O."
            )
        return is_spans

    def describe(self) -> dict[str, Any]:
        kind = {} if self.preset else {"is_spans": self.is_spans}
        return {**super().describe(), **kind}

    @functools.cached_property
    def _kinds_or_tags(self) -> tuple[str, ...]:
        """The kinds of spans, or else the tags, that may be in a file."""
        labels = self.columns.labels
        if labels and not (self.is_spans and all(map(_is_span_tag, labels))):
            return labels
        tags = self.class_names(self._json_columns[1]) or self._train_tags
        return tuple(sorted({self._kind_or_tag(tag) for tag in tags} - {""}))

    def _kind_or_tag(self, tag: str) -> str:
        return tag.partition("-")[2] if self.is_spans else tag

    def get_labels(self) -> tuple[str, ...]:
        """Returns the tags of the model: for spans, BIOES of all kinds."""
        if self.preset:
            sentences = self.get_examples("train")
            return tuple(sorted({tag for x in sentences for tag in x.tags}))
        labels = self._kinds_or_tags
        if self.is_spans:
            pairs = itertools.product(labels, "BIES")
            labels = ("O", *(f"{prefix}-{name}" for name, prefix in pairs))
        elif self.columns.main_metric == "f1":
            raise UserError(f"main_metric=f1 is not for {listed(labels)}.")
        if len(labels) < 2:
            raise UserError(
                f"{self.source('train')} has the tags {listed(labels)}; "
                "tagging needs two."
            )
        return labels

    @property
    def input_names(self) -> tuple[str, ...]:
        column = self.columns.words_column
        return ("words",) if column.isdecimal() or not column else (column,)

    @property
    def input_spec(self) -> InputSpec:
        """As for training files, but .txt holds one text per line."""
        number = self.columns.words_column
        word = {"word": int(number) - 1} if number.isdecimal() else {}
        texts = (".txt", ".tsv") if self.preset else (".txt",)
        files = {
            ending: columns._replace(**word)
            for ending, columns in _COLUMNS_BY_ENDING.items()
            if ending not in texts
        }
        return super().input_spec._replace(takes_words=True, word_files=files)

    def make_example(
        self, eid: int, inputs: Sequence[str | Sequence[str]]
    ) -> TaggedSentence:
        """Makes an example of words, or of text to split at white space."""
        (words,) = inputs
        words = words.split() if isinstance(words, str) else words
        if not words:
            raise BadRowError("A sentence has no words.")
        return TaggedSentence(eid, tuple(words))

    def texts_of(self, example: TaggedSentence) -> tuple[str, ...]:
        return (" ".join(example.words),)

    def read_examples(self, split: str, source: Source) -> list[TaggedSentence]:
        """Reads sentences; one with a bad tag is a bad row."""
        examples, original = [], "spans" in self.config.original_behaviour
        for eid, words in enumerate(self.rows_of_source(split, source)):
            bad = next((word for word in words if self._is_bad(word.tag)), None)
            if bad and split not in self.test_splits:
                with self.bad_rows.at(source.path, bad.place):
                    raise BadRowError(
                        f"{bad.text!r} has the unknown tag {bad.tag!r}."
                    )
                continue
            tags = () if bad else tuple(word.tag for word in words)
            if self.is_spans and tags:
                tags = [_BIOES.get(tag[0], tag[0]) + tag[1:] for tag in tags]
                spans = get_span_labels(tags, original=original)
                tags = tuple(get_tags(spans, len(tags)))
            texts = tuple(word.text for word in words)
            examples.append(TaggedSentence(eid, texts, tags))
        return examples

    def _is_bad(self, tag: str | None) -> bool:
        """Returns whether a tag is none, or none of this custom task."""
        if tag is None or (self.is_spans and not _is_span_tag(tag)):
            return True
        name = self._kind_or_tag(tag)
        return not (self.preset or name == "" or name in self._kinds_or_tags)

    @property
    def _json_columns(self) -> tuple[str, str]:
        """The names of the fields of words and tags."""
        columns = self.columns
        return columns.words_column or "words", columns.tags_column or "tags"

    def read_rows(self, split: str, source: Source) -> _Sentences:
        if columns := _COLUMNS_BY_ENDING.get(source.ending):
            for field in ("word", "tag"):
                if number := getattr(self.columns, f"{field}s_column"):
                    columns = columns._replace(**{field: int(number) - 1})
            return self._named(
                tables.read_sentences(source.path, columns, self.bad_rows)
            )
        names = words_name, tags_name = self._json_columns
        needs_tags = split not in self.test_splits
        required = names if needs_tags else (words_name,)
        sentences = []
        for row in source.read(self.columns, required, names):
            with self.bad_rows.at(source.path, row.place):
                words = row.texts(words_name)
                tags: Sequence[str | None] = [None] * len(words)
                if needs_tags or row.value(tags_name, default=None):
                    tags = row.texts(tags_name)
                if len(tags) != len(words):
                    raise BadRowError(f"{len(words)} words, {len(tags)} tags.")
                places = itertools.repeat(row.place)
                sentences.append(tuple(map(Word, places, words, tags)))
        return self._named(sentences)

    def _named(self, sentences: Iterable[Iterable[Word]]) -> _Sentences:
        """Names tags that are numbers of `labels`, unless these are some."""
        labels = self.columns.labels
        names = {str(i): label for i, label in enumerate(labels)}
        if not names or any(map(str.isdecimal, labels)):
            return [*sentences]
        return [
            tuple(w._replace(tag=names.get(w.tag, w.tag)) for w in words)
            for words in sentences
        ]

    def featurize(
        self, examples: Examples, *, is_training: bool
    ) -> Iterator[Row]:
        ids = {tag: i for i, tag in enumerate(self.labels)}
        sentences = [example.words for example in examples]
        for eid, window, row in rows_of(
            sentences, self.tokenizer, self.max_seq_length
        ):
            tags = examples[eid].tags or [""] * len(sentences[eid])
            is_known = np.array([tag in ids for tag in tags[window]])
            yield {
                **row,
                "eid": eid,
                "labels": np.array([ids.get(tag, 0) for tag in tags[window]]),
                "loss_mask": row["labels_mask"] * is_known,
            }

    def head(self) -> TaggingHead:
        return TaggingHead(self.name, len(self.labels))

    @property
    def main_metric(self) -> str:
        default = "f1" if self.is_spans else "accuracy"
        return self.columns.main_metric or default

    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        """Differs: the original adds each loss twice."""
        predicted, _ = self._tags(outputs, examples)
        metrics = tagging_metrics(
            [example.tags for example in examples],
            predicted,
            is_spans=self.is_spans,
            original_spans="spans" in self.config.original_behaviour,
        )
        num_words = sum(map(len, predicted))
        loss = float(np.sum(outputs["loss"])) / max(1, num_words)
        return {**metrics, "loss": loss}

    def answers(self, outputs: Outputs, examples: Examples) -> Answers:
        return [
            {
                "eid": example.eid,
                "words": example.words,
                "label": example.tags,
                "prediction": tags,
                "confidences": confidences,
            }
            for example, tags, confidences in zip(
                examples, *self._tags(outputs, examples), strict=True
            )
        ]

    def is_constant(self, outputs: Outputs) -> bool:
        scored = outputs["labels_mask"] > 0
        return len(np.unique(outputs["predictions"][scored])) == 1

    def labels_of(self, example: TaggedSentence) -> tuple[str, ...]:
        return example.tags

    def _tags(
        self, outputs: Outputs, examples: Examples
    ) -> tuple[list[list[str]], list[list[float]]]:
        """Merges the windows of each sentence into tags and confidences."""
        tags = [["O"] * len(example.words) for example in examples]
        confidences = [[0.0] * len(example.words) for example in examples]
        rows, places = np.nonzero(outputs["labels_mask"])
        for eid, word, tag, confidence in zip(
            outputs["eid"][rows].tolist(),
            (outputs["first_word"][rows] + places).tolist(),
            outputs["predictions"][rows, places].tolist(),
            outputs["confidences"][rows, places].tolist(),
            strict=True,
        ):
            tags[eid][word] = self.labels[tag]
            confidences[eid][word] = confidence
        return tags, confidences

    def output_files(self, split: str, answers: Answers) -> dict[str, str]:
        """Formats words, gold tags if any, and predicted tags for conlleval."""
        lines = []
        for answer in answers:
            words = [re.sub(r"\s", "_", word) for word in answer["words"]]
            columns = [words, answer["label"], answer["prediction"]]
            rows = zip(*filter(None, columns), strict=True)
            lines += [*map(" ".join, rows), ""]
        return {f"{self.name}_{split}.txt": "\n".join(lines) + "\n"}


_SPANS = {"tag_scheme": "spans"}
_TAGS = {"tag_scheme": "tags"}

TASKS: Mapping[str, Preset] = {
    # Phrases, as of CoNLL-2000: word, part of speech, tag.
    "chunk": Preset(kind=TaggingTask, ending=".txt", columns=_SPANS),
    # Names, as of CoNLL-2003: word, part of speech, phrase, tag.
    "ner": Preset(kind=TaggingTask, ending=".txt", columns=_SPANS),
    # Parts of speech, as in CoNLL-U; multiword tokens are skipped.
    "pos": Preset(kind=TaggingTask, ending=".conllu", columns=_TAGS),
    # Supertags: the word first, its tag last.
    "ccg": Preset(kind=TaggingTask, ending=".txt", columns=_TAGS),
}
