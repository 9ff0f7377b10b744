"""What a trained model is given to answer: Python values, or lines of files.

The formats of files, also of compressed ones:
  txt    a text a line
  tsv    a column for each input of the model, a tab between; no line of names
  jsonl  an object a line, with a field for each input of the model
  csv    as RFC 4180 says, with a line of names and a column for each input
"""

import csv
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from electra_tf.finetune.reading import BadRowError, parse_object
from electra_tf.finetune.records import Record
from electra_tf.util import compression, storage
from electra_tf.util.errors import UserError, shown

FORMATS = ("txt", "tsv", "jsonl", "csv")

Item = str | Sequence[str] | Mapping[str, Any]
"""What is answered at once: a text; a sequence of texts, or of one text's
words where the model tags; or a mapping from the names of inputs, where dots
name a field of a field."""
Inputs = tuple[str | Sequence[str], ...]
"""One value for each input of a model."""


class Source(NamedTuple):
    """Where items come from.

    Attributes:
      name: for messages.
      rows: the number of each row, from 1, and what it holds.
      parse: takes what a row holds; raises `BadRowError`.
      is_live: whether somebody waits for the answer to each row.
    """

    name: str
    rows: Iterable[tuple[int, Any]]
    parse: Callable[[Any], Inputs]
    is_live: bool = False


class Asked(NamedTuple):
    """What a model is given.

    Attributes:
      names: of its inputs.
      takes_words: whether they may be sequences of words.
    """

    names: tuple[str, ...]
    takes_words: bool = False


def inputs_of(item: Item, asked: Asked) -> Inputs:
    """Checks what a model is given.

    Args:
      item: see there.
      asked: what it must be.

    Raises:
      BadRowError: if it is something else.
    """
    names = asked.names
    if isinstance(item, Mapping):
        record = Record(0, item)
        values = tuple(record.value(name) for name in names)
    else:
        values = (item,) if len(names) == 1 else _parts(item, names)
    for name, value in zip(names, values, strict=True):
        is_list = asked.takes_words and isinstance(value, Sequence)
        parts = value if is_list else [value]
        if not all(map(_is_text, parts)):
            kind = "a text" + " or a list of words" * asked.takes_words
            raise BadRowError(
                f"{name!r} must be {kind}. Received: {shown(value)}."
            )
    return values


def _is_text(value: Any) -> bool:  # noqa: ANN401 (anything)
    """Says whether a value is a text, of whole characters."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parts(item: Item, names: Sequence[str]) -> tuple[Any, ...]:
    if isinstance(item, str) or not isinstance(item, Sequence):
        received = shown(item)
    elif len(item) == len(names):
        return tuple(item)
    else:
        received = f"{len(item)} values"
    raise BadRowError(
        f"An input must have {len(names)} texts, {_listed(names)}. "
        f"Received: {received}."
    )


def of_texts(texts: Sequence[str], asked: Asked) -> Source:
    """Makes a source of a single row.

    Args:
      texts: of it.
      asked: what the model is given.

    Raises:
      UserError: if the model has not so many inputs.
    """
    if len(texts) != len(asked.names):
        is_pair = len(asked.names) > 1
        right = "--text and --text_b" if is_pair else "--text alone"
        raise UserError(
            f"The model must be given {_listed(asked.names)}. Received: "
            f"{len(texts)} of them. Set {right}."
        )
    return Source("--text", [(1, tuple(texts))], lambda texts: texts)


def of_file(path: str, file_format: str, asked: Asked) -> Source:
    """Makes a source of the lines of a file.

    Args:
      path: of the file; "" for standard input.
      file_format: one of `FORMATS`, or "auto" for what the name ends in; of
        standard input txt, or tsv where the model has several inputs.
      asked: what the model is given.

    Raises:
      UserError: if there is no such file, or its format cannot be told.
    """
    if path and not storage.is_file(path):
        raise UserError(
            f"`input` must be a file. Received: {path!r}, which is none."
        )
    if file_format == "auto":
        default = "txt" if len(asked.names) == 1 else "tsv"
        file_format = _format_of(path) if path else default

    def parse(line: bytes) -> Inputs:
        return _parse(line, file_format, asked)

    def parse_fields(fields: _Fields) -> Inputs:
        return _parse_fields(fields, asked)

    is_csv = file_format == "csv"
    return Source(
        path or "standard input",
        _csv_rows(path)
        if is_csv
        else _rows(path, skips_blank=file_format == "jsonl"),
        parse_fields if is_csv else parse,
        is_live=not path and sys.stdin.isatty(),
    )


def _format_of(path: str) -> str:
    name = path
    if compression.is_compressed(path):
        name = os.path.splitext(path)[0]
    ending = os.path.splitext(name)[1].lower().removeprefix(".")
    if ending not in FORMATS:
        raise UserError(
            "The name of `input` must end in .txt, .tsv, .jsonl or .csv, and "
            f"may have .gz, .xz, .bz2 or .zst after it. Received: {path!r}. "
            "Set --input_format."
        )
    return ending


def _rows(path: str, *, skips_blank: bool) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a file, without what ends them.

    Raises:
      UserError: if it cannot be read, or is empty.
    """
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip() or not skips_blank:
                    yield number, line
    except compression.ERRORS as error:
        raise UserError(
            f"`input` must be a file that can be read. Received: {path}, after "
            f"line {number}: {error}"
        ) from error
    if not number:
        raise UserError(
            "`input` must hold texts. Received: nothing in "
            f"{path or 'standard input'}."
        )


class _Fields(NamedTuple):
    """A row of a table.

    Attributes:
      names: of the columns.
      values: as many, if the row is good.
    """

    names: Sequence[str]
    values: Sequence[str]


def _csv_rows(path: str) -> Iterator[tuple[int, _Fields]]:
    """Yields the rows of a table, each with the line that it begins in."""
    lines = (
        line.decode("utf-8", "surrogateescape") + "\n"
        for _, line in _rows(path, skips_blank=False)
    )
    csv.field_size_limit(sys.maxsize)  # whole books are fields too
    reader = csv.reader(lines, strict=True)
    number = 1
    try:
        names = next(reader)
        number += reader.line_num
        for values in reader:
            if values:
                yield number, _Fields(names, values)
            number = 1 + reader.line_num
    except csv.Error as error:
        raise UserError(
            f"`input` must be as RFC 4180 says. Received: {path}, line "
            f"{number}: {error}."
        ) from error


def _parse_fields(fields: _Fields, asked: Asked) -> Inputs:
    names, values = fields
    if len(values) != len(names):
        raise BadRowError(
            f"A row must have {len(names)} columns. Received: {len(values)}."
        )
    return inputs_of(dict(zip(names, values, strict=True)), asked)


def _opened(path: str) -> BinaryIO:
    if not path:
        return io.BufferedReader(io.FileIO(0, closefd=False))
    _, file = compression.decompress(path, storage.open_binary(path))
    return io.BufferedReader(file)


def _parse(line: bytes, file_format: str, asked: Asked) -> Inputs:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise BadRowError("A row must be UTF-8 text.") from error
    if file_format == "jsonl":
        return inputs_of(parse_object(text), asked)
    if file_format == "txt" and len(asked.names) == 1:
        return (text,)
    values = text.split("\t")
    if len(values) != len(asked.names):
        raise BadRowError(
            f"A row must have the columns {_listed(asked.names)}, with tabs "
            f"between. Received: {len(values)} columns."
        )
    return tuple(values)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
