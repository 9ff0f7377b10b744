"""Inputs of a trained model for prediction: Python values, or rows of files.

The formats of files, which may be compressed:
  txt    one text per line
  tsv    for a custom task like its training files, read with the same flags;
         for other tasks with columns that the first line names, as in GLUE's
         files, or else with one column for each input and no header
  csv    likewise, with a header
  jsonl  one object per line, with a field for each input of the model
  conll  for a tagger: one word per line and an empty line between sentences,
         as in its training files; conllu likewise
"""

import codecs
import contextlib
import functools
import io
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data.formats import conll, contents, tables
from electra_tf.data.formats.rows import (
    BadRowError,
    Line,
    Record,
    is_unicode,
    numbered,
)
from electra_tf.data.formats.tables import Layout, TableFile
from electra_tf.util import storage
from electra_tf.util.errors import UserError, shorten_repr

FORMATS = ("txt", "tsv", "jsonl", "csv", "conll", "conllu")
_SAME_AS = {"ndjson": "jsonl"}
_PLAIN = "columns"  # separated by tabs, without a header

Item = str | Sequence[str] | Mapping[str, Any]
"""One item to predict: a text; a sequence of texts, or for a tagger of the
words of one text; or a mapping from the names of inputs, where a dotted name is
a field of a field."""
Inputs = tuple[str | Sequence[str], ...]
"""One value for each input of a model."""


ParsedRows = tuple[Iterable[tuple[int, Any]], Callable[[Any], Inputs]]
"""The rows and the parser of an `InputSource`."""


class InputSource(NamedTuple):
    """Rows to predict, and their parser."""

    name: str
    rows: Iterable[tuple[int, Any]]
    parse: Callable[[Any], Inputs]
    is_live: bool = False


class InputSpec(NamedTuple):
    """The inputs of a model, and the files that may hold them."""

    names: tuple[str, ...]
    takes_words: bool = False
    columns: ColumnsConfig = ColumnsConfig()
    file_names: tuple[str, ...] = ()
    bare_layout: Layout | None = None
    word_files: Mapping[str, conll.Columns] = {}


def inputs_of(item: Item, spec: InputSpec) -> Inputs:
    """Returns the inputs of an item, checked."""
    names = spec.names
    if isinstance(item, Mapping):
        record = Record(0, item)
        values = tuple(record.value(name) for name in names)
    else:
        values = (item,) if len(names) == 1 else _parts(item, names)
    for name, value in zip(names, values, strict=True):
        is_list = spec.takes_words and isinstance(value, Sequence)
        parts = value if is_list else [value]
        if not all(isinstance(x, str) and is_unicode(x) for x in parts):
            kind = "a text" + " or a list of words" * spec.takes_words
            raise BadRowError(
                f"{name!r} must be {kind}. Received: {shorten_repr(value)}."
            )
    return values


def _parts(item: Item, names: Sequence[str]) -> tuple[Any, ...]:
    if isinstance(item, str) or not isinstance(item, Sequence):
        received = shorten_repr(item)
    elif len(item) == len(names):
        return tuple(item)
    else:
        received = f"{len(item)} values"
    raise BadRowError(
        f"An input must have {len(names)} texts, {_listed(names)}. "
        f"Received: {received}."
    )


def of_texts(texts: Sequence[str], spec: InputSpec) -> InputSource:
    """Makes a source of a single row."""
    if len(texts) != len(spec.names):
        is_pair = len(spec.names) > 1
        right = "--text and --text_b" if is_pair else "--text alone"
        raise UserError(
            f"The model must be given {_listed(spec.names)}. Received: "
            f"{len(texts)} of them. Set {right}."
        )
    return InputSource("--text", [(1, tuple(texts))], lambda texts: texts)


def of_file(path: str, file_format: str, spec: InputSpec) -> InputSource:
    """Makes a source of the rows of a file."""
    if path and not storage.is_file(path):
        raise UserError(
            f"`input` must be a file. Received: {path!r}, which is not."
        )
    if not path and sys.stdin is None:
        raise UserError(
            "Inputs must be given. Received: neither a file nor a text, and a "
            "closed standard input. Set --input or --text."
        )
    if file_format == "auto":
        file_format = _format_of(path) if path else _format_of_input(spec)
    rows, parse = _open(path, file_format, spec)
    is_live = not path and sys.stdin.isatty()
    return InputSource(path or "standard input", rows, parse, is_live)


def _format_of(path: str) -> str:
    ending = contents.ending(path).removeprefix(".")
    ending = _SAME_AS.get(ending, ending)
    if ending not in FORMATS:
        raise UserError(
            "The name of `input` must end in .txt, .tsv, .jsonl or .csv, and "
            f"may have .gz, .xz, .bz2 or .zst after it. Received: {path!r}. "
            "Set --input_format."
        )
    return ending


def _format_of_input(spec: InputSpec) -> str:
    """Returns the format of standard input."""
    if len(spec.names) == 1:
        return "txt"
    return _PLAIN if spec.columns.is_custom else "tsv"


def _open(path: str, file_format: str, spec: InputSpec) -> ParsedRows:
    """Opens a file according to its format and the model."""
    lines, kind = _lines(path), f".{file_format}"
    if columns := spec.word_files.get(kind):
        return _sentences(lines, columns)
    if file_format.startswith("conll"):
        raise UserError(
            "`input` must have one text per row, as the model is no tagger. "
            f"Received: {path or 'standard input'} as {file_format}. Set "
            "another --input_format."
        )
    if kind not in tables.ENDINGS:
        return _plain(lines, file_format, spec)
    way_out = "Name the columns there" + (
        ", or set --input_format=txt for one text per line."
        if len(spec.names) == 1
        else "."
    )
    origin = path or "standard input"
    table = TableFile(
        *(origin, lines, kind, spec.columns), no_header=way_out, has_flags=False
    )
    if kind == ".tsv" and not spec.columns.is_custom:
        return _columns(table, spec)
    return _records(table, spec.names, spec)


def _columns(table: TableFile, spec: InputSpec) -> ParsedRows:
    """Returns the rows of a file in GLUE's layout, or of one without header."""
    first = next(iter(table.lines), b"")
    table = table._replace(lines=itertools.chain([first], table.lines))
    fields = first.rstrip(b"\r\n").decode(errors="replace").split("\t")
    for names in (spec.names, spec.file_names):
        if names and {*names} <= {*fields}:
            return _records(table, names, spec)
    layout = spec.bare_layout
    if layout and len(fields) == layout.num_columns:
        table = table._replace(layout=layout)
        return _records(table, spec.names, spec)
    return _plain(table.lines, "tsv", spec)


def _records(
    table: TableFile, names: Sequence[str], spec: InputSpec
) -> ParsedRows:
    """Returns the rows of a table; its columns `names` are the inputs."""
    records = tables.read(table, names)
    rows = ((record.place, record) for record in records)
    return rows, functools.partial(_parse_record, names=names, spec=spec)


def _parse_record(
    record: Record, names: Sequence[str], spec: InputSpec
) -> Inputs:
    """Returns the inputs; texts of a custom task must not be empty."""
    values = [record.value(name) for name in names]
    if not spec.columns.is_custom:
        return inputs_of(dict(zip(spec.names, values, strict=True)), spec)
    are_lists = [spec.takes_words and isinstance(x, list) for x in values]
    return tuple(
        record.texts(name) if is_list else record.text(name)
        for name, is_list in zip(names, are_lists, strict=True)
    )


def _sentences(lines: Iterable[bytes], columns: conll.Columns) -> ParsedRows:
    """Returns the sentences of a file with one word per line."""
    found = conll.sentences(numbered(lines), columns)

    def parse(sentence: Sequence[Line]) -> Inputs:
        return (tuple(conll.word(line, columns).text for line in sentence),)

    return ((sentence[0].number, sentence) for sentence in found), parse


def _plain(
    lines: Iterable[bytes], file_format: str, spec: InputSpec
) -> ParsedRows:
    """Returns rows of one text, or of as many columns as there are inputs."""

    def parse(text: str | None) -> Inputs:
        if text is None:
            raise BadRowError("A row must be UTF-8 text.")
        if file_format == "txt" and len(spec.names) == 1:
            return (text,)
        values = text.split("\t")
        if len(values) != len(spec.names):
            raise BadRowError(
                f"A row must have the columns {_listed(spec.names)}, with "
                f"tabs between. Received: {len(values)} columns."
            )
        return tuple(values)

    return map(tuple, numbered(lines)), parse


def _lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a file, without a byte-order mark."""
    name, is_empty = path or "standard input", True
    with contents.file_errors(name), _opened(path) as file:
        for line in file:
            is_empty = False
            yield line
    if is_empty:
        raise UserError(
            f"`input` must hold texts. Received: nothing in {name}."
        )


@contextlib.contextmanager
def _opened(path: str) -> Iterator[io.BufferedReader]:
    """Opens a file, or standard input, which must not be compressed."""
    if path:
        with contents.opened(path) as file:
            yield file
        return
    file = io.BufferedReader(io.FileIO(0, closefd=False))
    if file.peek(3).startswith(codecs.BOM_UTF8):
        file.read(3)
    yield file


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
