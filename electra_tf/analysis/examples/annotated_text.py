"""Texts whose words have labels: errors, corrections, parts of speech.

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
import glob
import itertools
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from electra_tf.analysis.examples import example_files, tagged_sentences
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.util.errors import UserError

UPOS = (
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM "
    "VERB X"
).split()
"""Parts of speech of Universal Dependencies."""

_LABELS = {"c": False, "i": True}
_LABELLED = tables.WordColumns(separator="\t")
CORRECTED = ".src"
"""Extension of a file that has its corrections beside it."""
_SPELLCHECKED = ".spellchecked.src"  # beside the .src; read only if named


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotatedText:
    """A text and the labels of its words; kinds of labels it lacks are
    empty."""

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


def read(config: AnalysisConfig, split: str) -> list[AnnotatedText]:
    """Reads the texts of a split, in order."""
    files = example_files.find(config, split, _READERS)
    named = getattr(config, split)
    kept = [x for x in files if x in named or not _is_second_version(x, files)]
    return example_files.read(config, kept, _read_file)


def _is_second_version(path: str, files: Sequence[str]) -> bool:
    """Returns whether a file is the spellchecked version of another one."""
    original = path.removesuffix(_SPELLCHECKED) + CORRECTED
    return path.endswith(_SPELLCHECKED) and original in files


def _read_file(path: str) -> Iterator[AnnotatedText]:
    ending = tables.file_ending(path)
    if ending not in _READERS:
        raise UserError(
            f"An annotated text must end in {', '.join(_READERS)}, which tells "
            f"its format. Received: {path}. Rename it, or convert it to one."
        )
    return _READERS[ending](path)


def _lines(path: str) -> list[tuple[str, ...]]:
    """Reads the words of each line."""
    return [tuple(line.split()) for line in tables.read_lines(path)]


def _read_labelled(path: str) -> Iterator[AnnotatedText]:
    """Reads words with c or i."""
    for words in tagged_sentences.words(path, _LABELLED, tuple(_LABELS)):
        _, texts, labels = zip(*words, strict=True)
        yield AnnotatedText(
            path=path,
            words=texts,
            is_error=tuple(map(_LABELS.get, labels)),
        )


def _read_tagged(path: str) -> Iterator[AnnotatedText]:
    """Reads words with parts of speech."""
    for words in tagged_sentences.words(path, tables.CONLLU, UPOS):
        _, texts, tags = zip(*words, strict=True)
        yield AnnotatedText(path=path, words=texts, tags=tags)


def _read_plain(path: str) -> Iterator[AnnotatedText]:
    """Reads one text a line."""
    for words in _lines(path):
        if words:
            yield AnnotatedText(path=path, words=words)


def _read_corrected(path: str) -> Iterator[AnnotatedText]:
    """Reads sentences with their corrections beside them."""
    sources = _lines(path)
    references = []
    for name in references_of(path):
        lines = _lines(name)
        if len(lines) != len(sources):
            raise UserError(
                f"{path} must have a correction for each line. Received: "
                f"{len(sources):,} lines, and {len(lines):,} in {name}. "
                "Restore the files."
            )
        references.append(lines)
    for words, *corrected in zip(sources, *references, strict=True):
        if not words:
            continue
        edits = [edit(words, line) for line in corrected]
        yield AnnotatedText(
            path=path,
            words=words,
            is_error=majority(edits),
            corrections=tuple(
                frozenset(word for word in found if word is not None)
                for found in zip(*(x.corrections for x in edits), strict=True)
            ),
        )


def references_of(path: str) -> list[str]:
    """Returns the files of corrections of a file."""
    directory, name = os.path.split(path)
    stem = name[: name.lower().rindex(CORRECTED)]
    stem = stem.removesuffix(_SPELLCHECKED.removesuffix(CORRECTED))
    pattern = f"{glob.escape(stem)}.ref[0-9]*"
    found = sorted(map(str, pathlib.Path(directory).glob(pattern)))
    if not found:
        raise UserError(
            f"{path} must have corrections beside it, {stem}.ref0, "
            f"{stem}.ref1 and so on. Received: none. Put them there."
        )
    return found


class Edits(NamedTuple):
    """The changes of a correction."""

    is_changed: tuple[bool, ...]
    corrections: tuple[str | None, ...]


def edit(source: Sequence[str], corrected: Sequence[str]) -> Edits:
    """Aligns a sentence of at least one word with its correction."""
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
    return Edits(tuple(is_changed), tuple(corrections))


def majority(edits: Sequence[Edits]) -> tuple[bool, ...]:
    """Returns for each word whether more than half of the edits change it."""
    votes = zip(*(x.is_changed for x in edits), strict=True)
    return tuple(2 * sum(changed) > len(edits) for changed in votes)


_READERS = {
    ".conllu": _read_tagged,
    CORRECTED: _read_corrected,
    ".tsv": _read_labelled,
    ".txt": _read_plain,
}
