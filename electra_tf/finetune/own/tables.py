"""Rows of .csv, .tsv and .jsonl files."""

import csv
import json
import pathlib
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from electra_tf.configure_columns import ColumnsConfig
from electra_tf.finetune.reading import (
    BadRowError,
    parse_object,
    read_bytes,
    read_lines,
)
from electra_tf.finetune.records import Record, received
from electra_tf.util.errors import UserError

JSON_LINES = (".jsonl", ".ndjson")
ENDINGS = (".csv", ".tsv", *JSON_LINES)

_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TRIED = {";": "';'", "\t": "tab", ",": "','", "|": "'|'"}
"""A delimiter that a file may have -> as --delimiter takes it in a shell."""


class _Row(NamedTuple):
    """The fields of a row, or what is wrong with it."""

    number: int
    fields: Sequence[str]
    problem: str = ""


def ending(path: pathlib.Path) -> str:
    """Returns the ending of a file's name, of a packed file that inside."""
    return pathlib.Path(path.name.removesuffix(".gz")).suffix.lower()


def read(
    path: pathlib.Path, config: ColumnsConfig, required: Collection[str]
) -> Iterator[Record]:
    """Reads the rows of a file.

    Args:
      path: of the file.
      config: what it holds.
      required: columns that all rows must have.

    Yields:
      The rows, bad ones among them; empty lines are none.

    Raises:
      UserError: if the file cannot be read, or if its first line lacks a
        column or has one twice.
    """
    kind = ending(path)
    if kind in JSON_LINES:
        yield from _json_lines(path)
        return
    if kind not in _DELIMITERS:
        raise UserError(
            f"{path} must end in {', '.join(ENDINGS)}. Received: {kind!r}."
        )
    rows = _rows(path, config, kind)
    first = next(rows)
    _check_delimiter(path, first, config.has_header, required)
    if config.has_header:
        header = first
        names = _names(path, header)
    else:
        names = [str(i + 1) for i in range(len(first.fields))]
        header, rows = first, _chain(first, rows)
    for column in required:
        if column not in names:
            raise UserError(
                f"{path}, line {header.number}: `{column}` must be a column. "
                f"{received(column, names)}"
                + " Set --nohas_header if the first line is a row."
                * config.has_header
            )
    for row in rows:
        yield _record(row, names)


def _check_delimiter(
    path: pathlib.Path,
    first: _Row,
    has_header: bool,
    required: Collection[str],
) -> None:
    """Refuses a file whose columns are there with another delimiter.

    Raises:
      UserError: naming that delimiter.
    """
    names = _fields(first.fields, has_header)
    missing = [column for column in required if column not in names]
    if not (missing or first.problem):
        return
    line = read_bytes(path).decode("utf-8", "replace").partition("\n")[0]
    for delimiter, flag in _TRIED.items():
        split = next(csv.reader([line.strip("\r")], delimiter=delimiter), [])
        found = _fields(split, has_header)
        is_one = len(names) == 1 < len(found)
        if {*required} <= {*found} or (is_one and not first.problem):
            missing = missing or list(required)
            raise UserError(
                f"{path}, line {first.number}: `{missing[0]}` must be a "
                f"column. Received: {line:.80}. The file looks separated by "
                f"{flag}: set --delimiter={flag}."
            )


def _fields(fields: Sequence[str], has_header: bool) -> list[str]:
    """Returns the names of columns by the fields of the first line."""
    if has_header:
        return [field.strip() for field in fields]
    return [str(i + 1) for i in range(len(fields))]


def _chain(first: _Row, rows: Iterator[_Row]) -> Iterator[_Row]:
    yield first
    yield from rows


def _record(row: _Row, names: Sequence[str]) -> Record:
    """Makes a record of a row."""
    problem = row.problem
    if not problem and any(map(_NOT_UTF8.search, row.fields)):
        problem = "A row must be UTF-8 text."
    if not problem and len(row.fields) != len(names):
        problem = (
            f"A row must have {len(names)} columns. Received: "
            f"{len(row.fields)}."
        )
    if problem:
        return Record(row.number, {}, problem)
    return Record(row.number, dict(zip(names, row.fields, strict=True)))


def _names(path: pathlib.Path, header: _Row) -> list[str]:
    """Returns the names of the columns."""
    names = [name.strip() for name in header.fields]
    problem = header.problem
    if not problem and any(map(_NOT_UTF8.search, names)):
        problem = "The names of columns must be UTF-8 text."
    twice = [k for k, n in Counter(names).items() if n > 1 and k]
    if not problem and twice:
        problem = (
            "The names of columns must be different. Received: "
            f"{', '.join(map(repr, twice))} more than once. Set "
            "--nohas_header if the first line is a row."
        )
    if problem:
        raise UserError(f"{path}, line {header.number}: {problem}")
    return names


def _rows(
    path: pathlib.Path, config: ColumnsConfig, kind: str
) -> Iterator[_Row]:
    """Yields the rows of a file, its first line included."""
    text = read_bytes(path).decode("utf-8", "surrogateescape")
    lines = text.removesuffix("\n").split("\n")
    delimiter = config.delimiter or _DELIMITERS[kind]
    delimiter = "\t" if delimiter == "tab" else delimiter
    is_quoted = config.quoting == "true" or (
        config.quoting == "auto" and kind == ".csv"
    )
    if is_quoted:
        return iter(_quoted(path, lines, delimiter))
    lines = [line.removesuffix("\r") for line in lines]
    return (
        _Row(number, line.split(delimiter))
        for number, line in enumerate(lines, 1)
        if line
    )


def _quoted(
    path: pathlib.Path, lines: Sequence[str], delimiter: str
) -> list[_Row]:
    """Splits lines as RFC 4180 says; a row is as many lines as it needs."""
    before = csv.field_size_limit(sys.maxsize)  # whole books are fields too
    rows = []
    try:
        reader = csv.reader(
            (line + "\n" for line in lines), delimiter=delimiter, strict=True
        )
        while (row := _next(path, reader)) is not None:
            if row.fields or row.problem:
                rows.append(row)
    finally:
        csv.field_size_limit(before)
    return rows


def _next(path: pathlib.Path, reader: "csv.Reader") -> _Row | None:
    """Returns the next row, None at the end."""
    number = reader.line_num + 1
    try:
        return _Row(number, next(reader))
    except StopIteration:
        return None
    except csv.Error as error:
        if "end of data" in str(error):
            # Not to be passed over: all rows below would be lost with it.
            raise UserError(
                f"{path}, line {number}: A quotation mark must have a second "
                "one that closes the field. Received: none to the end of the "
                "file. Mend it, or set --quoting=false."
            ) from error
        return _Row(number, (), f"A row must be as RFC 4180 says: {error}.")


def _json_lines(path: pathlib.Path) -> Iterator[Record]:
    for line in read_lines(path):
        if line.text is not None and not line.text.strip():
            continue
        try:
            yield Record(line.number, _object(line.text))
        except BadRowError as error:
            yield Record(line.number, {}, str(error))


def _object(text: str | None) -> dict:
    value = parse_object(text)
    if "\\u" in str(text) and not _is_unicode(value):
        raise BadRowError("A row must be Unicode text. Received: a surrogate.")
    return value


def _is_unicode(value: dict) -> bool:
    """Says whether all texts in a value can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
