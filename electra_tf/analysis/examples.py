"""Files of an analysis: texts whose words have labels, and tagged sentences.

    .tsv      one word a line, a tab and c (correct) or i (incorrect), and an
              empty line between sentences: error detection on FCE
    .src      one sentence a line, words separated by spaces; its corrections
              are in files of the same stem, .ref0, .ref1 ...: JFLEG
    .conllu   Universal Dependencies; words are syntactic words: "don't" is
              "do" and "n't"
    .txt      one text a line, without labels

Each may be compressed. If a word is missing, the word after the gap is marked
as wrong, as in FCE.

Source: Rei and Yannakoudakis, 2016 (labels of FCE); Napoles et al., 2017
(JFLEG).
"""

import dataclasses
import difflib
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError, Row, WordColumns
from electra_tf.util import files
from electra_tf.util.errors import UserError

BAD_ROWS = tables.BadRows()
UPOS = (
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM "
    "VERB X"
).split()
"""Parts of speech of Universal Dependencies."""

_LABELS = ("c", "i")
_SOURCE, _SPELLCHECKED = ".src", ".spellchecked.src"
_JSON = (".json", *tables.JSON_LINES)

Example = TypeVar("Example")


def find(
    config: AnalysisConfig, split: str, endings: Collection[str] = ()
) -> list[str]:
    """Lists the files of a split; --dev and --test must not share one."""
    found = _find(config, split, endings)
    if split == "dev":
        test = {*map(os.path.realpath, _find(config, "test", endings))}
        for path in found:
            if os.path.realpath(path) in test:
                raise UserError(f"{path} is both in --dev and in --test.")
    return found


def _find(
    config: AnalysisConfig, split: str, endings: Collection[str]
) -> list[str]:
    found: dict[str, str] = {}
    for path in getattr(config, split):
        inside = [path]
        if tf.io.gfile.isdir(path):
            inside = sorted(
                os.path.join(root, name)
                for root, _, names in tf.io.gfile.walk(path)
                for name in names
                if not endings or tables.file_ending(name) in endings
            )
        found |= {os.path.realpath(file): file for file in inside}
    if not found:
        raise UserError(f"--what={config.what} needs files: set --{split}.")
    return [*found.values()]


def read(
    config: AnalysisConfig,
    paths: Iterable[str],
    read_file: Callable[[str], Iterable[Example]],
) -> list[Example]:
    """Reads the examples of files in order, at most `max_examples` of each."""
    found: list[Example] = []
    for path in paths:
        examples = list(read_file(path))
        if not examples:
            raise UserError(f"{path} has no examples.")
        if 0 < config.max_examples < len(examples):
            random = np.random.default_rng(config.seed)
            chosen = random.choice(
                len(examples), config.max_examples, replace=False
            )
            examples = [examples[i] for i in sorted(chosen)]
        found += examples
    return found


def read_json(
    config: AnalysisConfig, split: str, parse: Callable[[Row, str], Example]
) -> list[Example]:
    """Reads objects of .json lists and .jsonl lines; a path is `parse`'s."""

    def read_file(path: str) -> Iterator[Example]:
        for row in tables.read_rows(path):
            with BAD_ROWS.at(path, row.place):
                yield parse(row, path)

    return read(config, find(config, split, _JSON), read_file)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotatedText:
    """A text and the labels of its words; kinds that it lacks are empty."""

    path: str
    words: tuple[str, ...]
    is_error: tuple[bool, ...] = ()
    tags: tuple[str, ...] = ()
    corrections: tuple[frozenset[str], ...] = ()

    @property
    def text(self) -> str:
        """The words with one space between."""
        return " ".join(self.words)

    @property
    def ends(self) -> tuple[int, ...]:
        """One past the last character of each word in `text`."""
        ends = itertools.accumulate(1 + len(word) for word in self.words)
        return tuple(end - 1 for end in ends)


def read_texts(config: AnalysisConfig, split: str) -> list[AnnotatedText]:
    """Reads the texts of a split, in order."""
    paths = find(config, split, _READERS)
    first_versions = {
        path.removesuffix(_SOURCE) + _SPELLCHECKED
        for path in paths
        if path.endswith(_SOURCE)
    }
    second = first_versions - {*getattr(config, split)}
    return read(config, [x for x in paths if x not in second], _read_file)


def _read_file(path: str) -> Iterator[AnnotatedText]:
    ending = tables.file_ending(path)
    if ending not in _READERS:
        raise UserError(f"{path} must end in {', '.join(_READERS)}.")
    return _READERS[ending](path)


def _lines(path: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in tables.read_lines(path)]


def _read_labelled(path: str) -> Iterator[AnnotatedText]:
    for _, words, labels in _read_words(
        path, WordColumns(separator="\t"), _LABELS
    ):
        is_error = tuple(label == "i" for label in labels)
        yield AnnotatedText(path=path, words=words, is_error=is_error)


def _read_tagged(path: str) -> Iterator[AnnotatedText]:
    for _, words, tags in _read_words(path, tables.CONLLU, UPOS):
        yield AnnotatedText(path=path, words=words, tags=tags)


def _read_plain(path: str) -> Iterator[AnnotatedText]:
    for words in filter(None, _lines(path)):
        yield AnnotatedText(path=path, words=words)


def _read_corrected(path: str) -> Iterator[AnnotatedText]:
    """Reads sentences with their corrections beside them."""
    stem = path[: path.lower().rindex(_SOURCE)].removesuffix(".spellchecked")
    names = files.find(f"{files.escape(stem)}.ref[0-9]*")
    if not names:
        raise UserError(f"{path} has no corrections beside it, {stem}.ref0.")
    sources, *references = map(_lines, (path, *names))
    for name, lines in zip(names, references, strict=True):
        if len(lines) != len(sources):
            raise UserError(
                f"{path} has {len(sources):,} lines, {name} {len(lines):,}."
            )
    for words, *corrected in zip(sources, *references, strict=True):
        if not words:
            continue
        edits = [edit(words, line) for line in corrected]
        is_changed, corrections = zip(*edits, strict=True)
        votes = zip(*is_changed, strict=True)
        yield AnnotatedText(
            path=path,
            words=words,
            is_error=tuple(2 * sum(x) > len(edits) for x in votes),
            corrections=tuple(
                frozenset(x) - {None} for x in zip(*corrections, strict=True)
            ),
        )


def edit(
    source: Sequence[str], corrected: Sequence[str]
) -> tuple[list[bool], list[str | None]]:
    """Finds the changed words of a sentence, and their corrections."""
    is_changed = [False] * len(source)
    corrections: list[str | None] = [None] * len(source)
    matcher = difflib.SequenceMatcher(None, source, corrected, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "insert":
            is_changed[min(start, len(source) - 1)] = True
        elif kind != "equal":
            is_changed[start:end] = [True] * (end - start)
            if new_end - new_start == end - start:
                corrections[start:end] = corrected[new_start:new_end]
    return is_changed, corrections


_READERS = {
    ".conllu": _read_tagged,
    _SOURCE: _read_corrected,
    ".tsv": _read_labelled,
    ".txt": _read_plain,
}


class Sentence(NamedTuple):
    """A sentence of tagged words; the task is the kind of the tags."""

    task: str
    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_sentences(config: AnalysisConfig, split: str) -> list[Sentence]:
    """Reads parts of speech of .conllu, and chunks of CoNLL-2000."""

    def read_file(path: str) -> Iterator[Sentence]:
        if tables.file_ending(path) == ".conllu":
            return _read_words(path, tables.CONLLU, task="part of speech")
        return _read_words(path, WordColumns(word=0, tag=2), task="chunk")

    return read(config, find(config, split), read_file)


def _read_words(
    path: str, columns: WordColumns, tags: Collection[str] = (), task: str = ""
) -> Iterator[Sentence]:
    """Yields sentences whose words have tags, of the given ones if any."""

    def check(word: tables.Word) -> None:
        if word.tag is None or tags and word.tag not in tags:
            raise BadRowError(f"{word.text!r} has the tag {word.tag!r}.")

    for words in tables.read_sentences(path, columns, BAD_ROWS, check):
        _, texts, labels = zip(*words, strict=True)
        yield Sentence(task, texts, labels)
