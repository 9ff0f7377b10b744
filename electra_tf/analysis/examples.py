"""Files of an analysis: texts whose words have labels, and JSON objects.

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

import difflib
import os
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRowError, Row, WordColumns
from electra_tf.util import files
from electra_tf.util.errors import UserError

UPOS = (
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM "
    "VERB X"
).split()
"""Parts of speech of Universal Dependencies."""

Readers = Mapping[str, Callable[[str], Iterable[Any]]]
"""Ending of a file -> its reader."""

_BAD_ROWS = tables.BadRows()


def read(config: AnalysisConfig, split: str, readers: Readers) -> list[Any]:
    """Reads the examples of a split, at most `max_examples` of each file."""
    paths = _find(config, split, readers)
    if split == "dev":
        for path in paths.keys() & _find(config, "test", readers).keys():
            raise UserError(f"{path} is both in --dev and in --test.")
    examples: list[Any] = []
    for path in paths.values():
        ending = tables.file_ending(path)
        if ending not in readers:
            raise UserError(f"{path} must end in {', '.join(readers)}.")
        some = list(readers[ending](path))
        if not some:
            raise UserError(f"{path} has no examples.")
        if 0 < config.max_examples < len(some):
            random = np.random.default_rng(config.seed)
            chosen = random.choice(
                len(some), config.max_examples, replace=False
            )
            some = [some[i] for i in sorted(chosen)]
        examples += some
    return examples


def _find(
    config: AnalysisConfig, split: str, readers: Readers
) -> dict[str, str]:
    """Finds the files of a split: absolute path -> path."""
    paths: dict[str, str] = {}
    for path in getattr(config, split):
        inside = [path]
        if tf.io.gfile.isdir(path):
            inside = sorted(
                os.path.join(root, name)
                for root, _, names in tf.io.gfile.walk(path)
                for name in names
                if tables.file_ending(name) in readers
                if not name.endswith(".spellchecked.src")  # the same sentences
            )
        paths |= {os.path.realpath(file): file for file in inside}
    if not paths:
        raise UserError(f"--what={config.what} needs files: set --{split}.")
    return paths


def read_json(
    config: AnalysisConfig, split: str, parse: Callable[[Row, str], Any]
) -> list[Any]:
    """Reads objects of .json lists and .jsonl lines; a path is `parse`'s."""

    def read_file(path: str) -> Iterator[Any]:
        for row in tables.read_rows(path):
            with _BAD_ROWS.at(path, row.place):
                yield parse(row, path)

    endings = (".json", *tables.JSON_LINES)
    return read(config, split, dict.fromkeys(endings, read_file))


class AnnotatedText(NamedTuple):
    """A text and the labels of its words; kinds that it lacks are empty."""

    path: str
    words: tuple[str, ...]
    is_error: tuple[bool, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read_texts(config: AnalysisConfig, split: str) -> list[AnnotatedText]:
    readers = {
        ".conllu": _read_conllu,
        ".src": _read_corrected,
        ".tsv": _read_labelled,
        ".txt": _read_plain,
    }
    return read(config, split, readers)


def read_tagged(config: AnalysisConfig, split: str) -> list[AnnotatedText]:
    """Reads parts of speech of .conllu, and chunks of CoNLL-2000, .txt."""
    chunks = WordColumns(word=0, tag=2)
    readers = {
        ".conllu": _read_conllu,
        ".txt": lambda path: _read_words(path, chunks),
    }
    return read(config, split, readers)


def _read_words(
    path: str, columns: WordColumns, tags: Collection[str] = ()
) -> Iterator[AnnotatedText]:
    """Yields sentences whose words have tags, of the given ones if any."""

    def check(word: tables.Word) -> None:
        if word.tag is None or tags and word.tag not in tags:
            raise BadRowError(f"{word.text!r} has the tag {word.tag!r}.")

    for sentence in tables.read_sentences(path, columns, _BAD_ROWS, check):
        _, words, labels = zip(*sentence, strict=True)
        yield AnnotatedText(path, words, tags=labels)


def _read_conllu(path: str) -> Iterator[AnnotatedText]:
    return _read_words(path, tables.CONLLU, UPOS)


def _read_labelled(path: str) -> Iterator[AnnotatedText]:
    for text in _read_words(path, WordColumns(), ("c", "i")):
        is_error = tuple(label == "i" for label in text.tags)
        yield AnnotatedText(path, text.words, is_error)


def _lines(path: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in tables.read_lines(path)]


def _read_plain(path: str) -> Iterator[AnnotatedText]:
    for words in filter(None, _lines(path)):
        yield AnnotatedText(path, words)


def _read_corrected(path: str) -> Iterator[AnnotatedText]:
    stem = path[: path.lower().rindex(".src")].removesuffix(".spellchecked")
    names = files.find(f"{files.escape(stem)}.ref[0-9]*")
    if not names:
        raise UserError(f"{path} has no corrections beside it, {stem}.ref0.")
    columns = list(map(_lines, (path, *names)))
    if len(sizes := {*map(len, columns)}) > 1:
        raise UserError(f"{path} and its corrections have {sizes} lines.")
    for words, *corrected in zip(*columns, strict=True):
        if not words:
            continue
        changes = zip(*(changed(words, x) for x in corrected), strict=True)
        is_error = tuple(2 * sum(votes) > len(names) for votes in changes)
        yield AnnotatedText(path, words, is_error)


def changed(source: Sequence[str], corrected: Sequence[str]) -> list[bool]:
    """Tests which words of a sentence a correction changes."""
    is_changed = [False] * len(source)
    matcher = difflib.SequenceMatcher(None, source, corrected, autojunk=False)
    for kind, start, end, *_ in matcher.get_opcodes():
        if kind == "insert":
            is_changed[min(start, len(source) - 1)] = True
        elif kind != "equal":
            is_changed[start:end] = [True] * (end - start)
    return is_changed
