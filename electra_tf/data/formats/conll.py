"""Files with one word per line and an empty line between sentences.

The formats of the CoNLL shared tasks, and CoNLL-U.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from electra_tf.data.formats.rows import BadRowError, BadRows, Line
from electra_tf.util.errors import shorten_repr

_DOCUMENT = "-DOCSTART-"
_BLANKS = " \t\r"  # a word may contain other white space: no-break, ideographic


class Columns(NamedTuple):
    """Column layout of a file with one word per line; columns count from 0."""

    word: int = 0
    tag: int = -1
    separator: str | None = None
    is_conllu: bool = False


CONLLU = Columns(1, 3, "\t", is_conllu=True)


class Word(NamedTuple):
    """A word of a sentence."""

    place: int | str
    text: str
    tag: str | None


def read(
    path: str | os.PathLike[str],
    lines: Iterable[Line],
    columns: Columns,
    *,
    bad_rows: BadRows,
    check: Callable[[Word], None],
) -> Iterator[tuple[Word, ...]]:
    """Reads the sentences of a file that have no bad word."""
    for sentence in sentences(lines, columns):
        words: list[Word] = []
        for line in sentence:
            with bad_rows.at(path, line.number):
                found = word(line, columns)
                check(found)
                words.append(found)
        if len(words) == len(sentence):
            yield tuple(words)


def sentences(lines: Iterable[Line], columns: Columns) -> Iterator[list[Line]]:
    """Yields the lines of each sentence, one line for each word."""
    sentence: list[Line] = []
    for line in itertools.chain(lines, [Line(0, "")]):
        is_end = line.text is not None and not line.text.strip()
        if is_end and sentence:
            yield sentence
            sentence = []
        if not is_end and not _is_comment(line, columns):
            sentence.append(line)


def _is_comment(line: Line, columns: Columns) -> bool:
    """Returns whether a line does not hold a word of a sentence."""
    text = line.text or ""
    if not columns.is_conllu:
        return text.startswith(_DOCUMENT)
    number, _, _ = text.partition("\t")
    return text.startswith("#") or "-" in number or "." in number


def word(line: Line, columns: Columns) -> Word:
    """Reads the word of a line."""
    if line.text is None:
        raise BadRowError("A row must be UTF-8 text.")
    text, separator = line.text.strip(_BLANKS), columns.separator
    if separator is None:
        fields = re.split(r"\t[ \t]*" if "\t" in text else " +", text)
    else:
        # A leading separator follows an empty cell.
        fields = line.text.rstrip(_BLANKS).split(separator)
    fields = [field.strip(" ") for field in fields]
    if not any(fields[columns.word : columns.word + 1]):
        raise BadRowError(
            f"A row must have a word in column {columns.word + 1}. Received: "
            f"{shorten_repr(text)}."
        )
    # The last column holds the tag only if it comes after the word's.
    least = columns.word + 1 if columns.tag < 0 else columns.tag
    tag = fields[columns.tag] if len(fields) > least else None
    return Word(line.number, fields[columns.word], tag or None)
