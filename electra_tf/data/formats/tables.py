"""Tables with one record per row: .csv, .tsv and JSON lines."""

import csv
import itertools
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from electra_tf.config.columns import ColumnsConfig
from electra_tf.data.formats.contents import JSON_LINES
from electra_tf.data.formats.rows import Record, json_records, received_columns
from electra_tf.util.errors import UserError

ENDINGS = (".csv", ".tsv", *JSON_LINES)

_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_NO_HEADER = "Set --nohas_header if the first line is a row."


class Layout(NamedTuple):
    """Columns by their positions, ignoring the names in a header."""

    positions: Mapping[str, int]
    num_columns: int | None = None

    def names(self, count: int) -> list[str]:
        """Returns names for all columns, "" for those that are not read."""
        names = [""] * count
        for name, position in self.positions.items():
            names[position] = name
        return names


class TableFile(NamedTuple):
    """The lines of a file, and how to read them."""

    origin: str
    lines: Iterable[bytes]
    kind: str
    config: ColumnsConfig
    layout: Layout | None = None
    no_header: str = _NO_HEADER
    has_flags: bool = True


_LIKELY_DELIMITERS = {";": "';'", "\t": "tab", ",": "','", "|": "'|'"}
"""A delimiter that a file may have -> the value of --delimiter in a shell."""


class _Row(NamedTuple):
    """The fields of a row, or what is wrong with it."""

    number: int
    fields: Sequence[str]
    problem: str = ""


def read(table: TableFile, required: Collection[str]) -> Iterator[Record]:
    """Reads the rows of a table, one after the other."""
    if table.kind in JSON_LINES:
        yield from json_records(table.lines)
        return
    if table.kind not in _DELIMITERS:
        raise UserError(
            f"{table.origin} must end in {', '.join(ENDINGS)}. Received: "
            f"{table.kind!r}."
        )
    lines = iter(table.lines)
    line = next(lines, b"")
    rows = _rows(table._replace(lines=itertools.chain([line], lines)))
    first = next(rows, None)
    if first is None:
        raise UserError(f"{table.origin} must hold rows. Received: none.")
    if table.layout:
        names, is_row = _positions(table.layout, table.origin, first)
    else:
        _check_delimiter(table, line, first, required)
        names, is_row = _columns(table, first, required)
    for row in itertools.chain([first] * is_row, rows):
        yield _record(row, names)


def _positions(
    layout: Layout, origin: str, first: _Row
) -> tuple[Sequence[str], bool]:
    """Returns the names of a layout's columns, and whether `first` is a row."""
    count = layout.num_columns or len(first.fields)
    min_columns = 1 + max(layout.positions.values())
    if count < min_columns:
        raise UserError(
            f"{origin}, line {first.number}: There must be at least "
            f"{min_columns} columns. Received: {count}."
        )
    return layout.names(count), layout.num_columns is not None


def _columns(
    table: TableFile, first: _Row, required: Collection[str]
) -> tuple[Sequence[str], bool]:
    """Returns the names of the columns, and whether the first line is a row."""
    has_header = table.config.has_header
    names = _fields(first.fields, has_header)
    if has_header:
        _check_names(table, first, names)
    for column in required:
        if column not in names:
            raise UserError(
                f"{table.origin}, line {first.number}: `{column}` must be a "
                f"column. {received_columns(column, names)}"
                + f" {table.no_header}"
                * has_header
            )
    return names, not has_header


def _check_delimiter(
    table: TableFile, line: bytes, first: _Row, required: Collection[str]
) -> None:
    """Refuses a file that has the columns with another delimiter."""
    has_header = table.config.has_header
    names = _fields(first.fields, has_header)
    missing = [column for column in required if column not in names]
    if not (missing or first.problem):
        return
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    for delimiter, flag in _LIKELY_DELIMITERS.items():
        fields = [field.strip('"') for field in text.split(delimiter)]
        found = _fields(fields, has_header)
        is_one = len(names) == 1 < len(found)
        if {*required} <= {*found} or (is_one and not first.problem):
            missing = missing or list(required)
            way_out = "put commas (.csv) or tabs (.tsv) between its columns"
            if table.has_flags:
                way_out = f"set --delimiter={flag}"
            raise UserError(
                f"{table.origin}, line {first.number}: `{missing[0]}` must be "
                f"a column. Received: {text:.80}. The delimiter seems to be "
                f"{flag}: {way_out}."
            )


def _fields(fields: Sequence[str], has_header: bool) -> list[str]:
    """Returns the names of the columns: from the first line, or numbers."""
    if has_header:
        return [field.strip() for field in fields]
    return [str(i + 1) for i in range(len(fields))]


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


def _check_names(table: TableFile, header: _Row, names: Sequence[str]) -> None:
    """Refuses a header that cannot be read or has a name twice."""
    problem = header.problem
    if not problem and any(map(_NOT_UTF8.search, names)):
        problem = "Column names must be UTF-8 text."
    repeated = [k for k, n in Counter(names).items() if n > 1 and k]
    if not problem and repeated:
        problem = (
            "Column names must be unique. Received: "
            f"{', '.join(map(repr, repeated))} more than once. "
            f"{table.no_header}"
        )
    if problem:
        raise UserError(f"{table.origin}, line {header.number}: {problem}")


def _rows(table: TableFile) -> Iterator[_Row]:
    """Yields the rows of a table, its first line included."""
    config, kind = table.config, table.kind
    lines = (line.decode("utf-8", "surrogateescape") for line in table.lines)
    delimiter = config.delimiter or _DELIMITERS[kind]
    delimiter = "\t" if delimiter == "tab" else delimiter
    is_quoted = config.quoting == "true" or (
        config.quoting == "auto" and kind == ".csv"
    )
    if is_quoted:
        return _quoted(table, lines, delimiter)
    lines = (line.removesuffix("\n").removesuffix("\r") for line in lines)
    return (
        _Row(number, line.split(delimiter))
        for number, line in enumerate(lines, 1)
        if line
    )


def _quoted(
    table: TableFile, lines: Iterator[str], delimiter: str
) -> Iterator[_Row]:
    """Parses rows according to RFC 4180; a row may span several lines."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while (row := _next(table, reader)) is not None:
        if row.fields or row.problem:
            yield row


def _next(table: TableFile, reader: "csv.Reader") -> _Row | None:
    """Returns the next row, None at the end."""
    number = reader.line_num + 1
    before = csv.field_size_limit(sys.maxsize)  # whole books are fields too
    try:
        return _Row(number, next(reader))
    except StopIteration:
        return None
    except csv.Error as error:
        if "end of data" in str(error):
            # Never skipped as a bad row: all rows below would be lost with it.
            way_out = ", or set --quoting=false" if table.has_flags else ""
            raise UserError(
                f"{table.origin}, line {number}: A quoted field must have a "
                "closing quotation mark. Received: none to the end of the "
                f"file. Correct it{way_out}."
            ) from error
        return _Row(
            number, (), f"A row must follow RFC 4180. Received: {error}."
        )
    finally:
        csv.field_size_limit(before)
