"""Rows of tables: CSV, TSV, JSON, Parquet, and one word per line (CoNLL).

Files may be compressed, as the ending of the name says.
"""

import bz2
import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from lzma import LZMAError
from tarfile import TarError
from types import UnionType
from typing import Any, BinaryIO, NamedTuple

from electra_tf.config.columns import ColumnsConfig
from electra_tf.util.errors import UserError

JSON_LINES = (".jsonl", ".ndjson")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
ENDINGS = (*DELIMITERS, *JSON_LINES)
"""The files of tables that custom tasks read."""

csv.field_size_limit(sys.maxsize)  # whole books are fields too


def _zstd(file: BinaryIO) -> BinaryIO:
    import pyarrow

    return io.BufferedReader(pyarrow.input_stream(file, compression="zstd"))


COMPRESSIONS: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _zstd,
}
COMPRESSIONS |= {f".t{x[1:]}": opener for x, opener in COMPRESSIONS.items()}


class _RemoteFile(io.RawIOBase):
    """A file of TensorFlow's file systems, such as gs://."""

    def __init__(self, path: str) -> None:
        import tensorflow as tf

        self._file = tf.io.gfile.GFile(path, "rb")

    readable = seekable = lambda self: True

    def readinto(self, buffer: memoryview) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()


def open_file(path: str) -> BinaryIO:
    if "://" in path:
        return decompress(path, io.BufferedReader(_RemoteFile(path), 2**20))
    return decompress(path, open(path, "rb"))


def decompress(name: str, file: BinaryIO) -> BinaryIO:
    ending = os.path.splitext(name)[1].lower()
    return COMPRESSIONS.get(ending, lambda file: file)(file)


def file_ending(path: str | os.PathLike[str]) -> str:
    """Returns the ending of a file's name without that of a compression."""
    stem, ending = os.path.splitext(os.fspath(path).lower())
    return os.path.splitext(stem)[1] if ending in COMPRESSIONS else ending


@contextlib.contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Adds the path to errors of reading a file."""
    try:
        yield
    except (EOFError, OSError, LZMAError, TarError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the lines of a text file in UTF-8, with their ends."""
    path = os.fspath(path)
    with naming_file(path), open_file(path) as file:
        yield from decode_lines(path, file)


def decode_lines(name: str, file: Iterable[bytes]) -> Iterator[str]:
    """Yields the lines of a stream; a byte-order mark is no text."""
    for number, line in enumerate(file, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{name}, line {number}: not UTF-8.") from error


class BadRowError(ValueError):
    """A row cannot be used; its place is a line, from 1, or a description."""

    def __init__(self, problem: str, place: int | str = 0) -> None:
        super().__init__(problem)
        self.place = place


_REQUIRED = object()


class Row(dict):
    """The values of a row by column; dots name a field of a field.

    A row with a problem raises when it is used.
    """

    def __init__(
        self,
        values: Mapping[str, Any] | Iterable[tuple[str, Any]],
        place: int | str = 0,
        problem: str = "",
    ) -> None:
        super().__init__(values)
        self.place = place
        self.problem = problem

    def value(
        self,
        column: str,
        kind: type | UnionType = object,
        default: object = _REQUIRED,
    ) -> Any:  # noqa: ANN401 (of that kind)
        """Returns a value of a kind; the default if it is missing or null."""
        if self.problem:
            raise BadRowError(self.problem, self.place)
        value: Any = self
        for part in [column] if column in self else column.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None and default is not _REQUIRED:
            return default
        is_flag = isinstance(value, bool) and kind in (int, str | int)
        if value is None or is_flag or not isinstance(value, kind):
            raise self._bad_value(column, value)
        return value

    def _bad_value(self, column: str, value: object) -> BadRowError:
        problem = f"{column!r} is {value!r:.60} in {dict(self)!r:.60}"
        return BadRowError(problem, self.place)

    def text(self, column: str) -> str:
        if not (value := self.value(column, str)).strip():
            raise self._bad_value(column, value)
        return value

    def texts(self, column: str) -> tuple[str, ...]:
        """Returns a list of texts that are not blank; integers become texts."""
        values = self.value(column, list)
        texts = [str(x) for x in values if type(x) in (str, int)]
        if not values or len([*filter(str.strip, texts)]) < len(values):
            raise self._bad_value(column, values)
        return tuple(texts)

    def label(self, column: str) -> str | tuple[str, ...] | None:
        """Returns a label or number as text, or a list of them; or None."""
        value = self.value(column, str | float | int | list, "")
        if isinstance(value, list):
            return self.texts(column) if value else ()
        text = value if isinstance(value, str) else json.dumps(value)
        return text.strip() or None


class BadRows:
    """Refuses rows that cannot be used, or counts them."""

    def __init__(self, *, skip: bool = False) -> None:
        self._skip = skip
        self._problems: dict[str, dict[int | str, str]] = {}

    @contextlib.contextmanager
    def at(
        self, path: str | os.PathLike[str], place: int | str
    ) -> Iterator[None]:
        try:
            yield
        except BadRowError as error:
            if not self._skip:
                where = describe_place(place)
                raise UserError(f"{path}, {where}: {error}") from error
            self.skip_row(path, place, str(error))

    def skip_row(
        self, path: str | os.PathLike[str], place: int | str, problem: str
    ) -> None:
        """Counts a row; a file may be read more than once."""
        self._problems.setdefault(str(path), {}).setdefault(place, problem)

    @property
    def counts(self) -> dict[str, int]:
        """File -> number of rows left out."""
        return {path: len(rows) for path, rows in self._problems.items()}

    @property
    def notes(self) -> list[str]:
        """A note for each file: rows left out, and the first problem."""
        notes = []
        for path, rows in self._problems.items():
            place, problem = next(iter(rows.items()))
            notes.append(
                f"{len(rows):,} bad rows of {path} are left out. The first, "
                f"{describe_place(place)}: {problem}"
            )
        return notes


def describe_place(place: int | str) -> str:
    return f"line {place}" if isinstance(place, int) else place


class Layout(NamedTuple):
    """Columns by their positions; a file of `num_columns` has no header."""

    positions: Mapping[str, int]
    num_columns: int | None = None


def read_rows(
    path: str | os.PathLike[str],
    columns: Collection[str] = (),
    config: ColumnsConfig = ColumnsConfig(),  # noqa: B008 (it is frozen)
    *,
    layout: Layout | None = None,
    lines: Iterable[str] | None = None,
    ending: str = "",
) -> Iterator[Row]:
    """Yields the rows of a table; one that cannot be read raises when used.

    `lines` and `ending` replace those of the file.
    """
    path, ending = os.fspath(path), ending or file_ending(path)
    lines = lines or read_lines(path)
    if ending == ".json":
        try:
            values = json.loads("".join(lines))
        except ValueError as error:
            raise UserError(f"{path} is not JSON: {error}") from error
        if isinstance(values, dict):
            values = values.get("data")
        if not isinstance(values, list):
            raise UserError(f"{path} is not a list of JSON objects.")
        for number, value in enumerate(values, 1):
            yield json_row(value, f"entry {number}")
    elif ending in JSON_LINES:
        yield from json_rows(lines)
    elif ending in DELIMITERS:
        fields = _split(path, lines, ending, config)
        yield from _name_columns(path, fields, columns, config, layout)
    else:
        raise UserError(f"{path} must end in {', '.join(ENDINGS)}.")


def _name_columns(
    path: str,
    rows: Iterable[tuple[int, list[str]]],
    columns: Collection[str],
    config: ColumnsConfig,
    layout: Layout | None,
) -> Iterator[Row]:
    names: list[str] = []
    for place, fields in rows:
        if not names:
            names = _column_names(fields, config, layout)
            if missing := [x for x in columns if x not in names]:
                raise UserError(
                    f"{path}, line {place}: no column {missing[0]!r} in "
                    f"{fields!r:.60}."
                )
            if not layout.num_columns if layout else config.has_header:
                continue
        problem = ""
        if len(fields) != len(names):
            problem = f"{len(fields)} columns instead of {len(names)}."
            if any(field.startswith('"') for field in fields):
                problem += " Only .csv files have fields in double quotes."
        yield Row(zip(names, fields, strict=False), place, problem)


def _column_names(
    fields: list[str], config: ColumnsConfig, layout: Layout | None
) -> list[str]:
    if layout:
        names = [""] * (layout.num_columns or len(fields))
        if len(names) <= max(layout.positions.values()):
            raise UserError(f"{fields!r:.60} has too few columns.")
        for name, position in layout.positions.items():
            names[position] = name
        return names
    if not config.has_header:
        return [str(i + 1) for i in range(len(fields))]
    names = [field.strip() for field in fields]
    named = [name for name in names if name]
    if len({*named}) < len(named):
        raise UserError(f"Two columns have the same name: {names}.")
    return names


def _split(
    path: str, lines: Iterable[str], ending: str, config: ColumnsConfig
) -> Iterator[tuple[int, list[str]]]:
    """Yields the line and the fields of each row that is not empty."""
    delimiter = (config.delimiter or DELIMITERS[ending]).replace("tab", "\t")
    if ending != ".csv":
        for number, line in enumerate(lines, 1):
            if text := line.removesuffix("\n").removesuffix("\r"):
                yield number, text.split(delimiter)
        return
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    number = 1
    try:
        for fields in reader:
            if fields:
                yield number, fields
            number = reader.line_num + 1  # a row may span several lines
    except csv.Error as error:
        raise UserError(f"{path}, line {number}: {error}.") from error


def parquet_rows(file: BinaryIO, columns: list[str]) -> Iterator[Row]:
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(file)
        batches = table.iter_batches(256, columns=columns)  # fit in memory
        rows = itertools.chain.from_iterable(x.to_pylist() for x in batches)
        for number, row in enumerate(rows, 1):
            yield Row(row, f"row {number}")
    except pyarrow.ArrowException as error:
        raise OSError(str(error)) from error


def json_rows(lines: Iterable[str | bytes]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError as error:
                yield Row({}, number, f"Not JSON: {error}.")
            else:
                yield json_row(value, number)


def json_row(value: Any, place: int | str) -> Row:  # noqa: ANN401
    if isinstance(value, dict):
        return Row(value, place)
    return Row({}, place, f"{value!r:.60} is no JSON object.")


class WordColumns(NamedTuple):
    """Columns, from 0, of a file with one word per line."""

    word: int = 0
    tag: int = -1
    ignored: str = "-DOCSTART-"  # pattern at the start of a line


# Ignored: comments; 1-2 for "don't"; 1.1 for a gap.
CONLLU = WordColumns(1, 3, r"#|[^\t]*[-.]")


class Word(NamedTuple):
    place: int | str
    text: str
    tag: str | None


def read_sentences(
    path: str | os.PathLike[str],
    columns: WordColumns,
    bad_rows: BadRows,
    check: Callable[[Word], None] = lambda word: None,
    lines: Iterable[str] | None = None,
) -> Iterator[tuple[Word, ...]]:
    """Yields the sentences of a file, or of its lines, without a bad word.

    Lines of "# " before a sentence are comments if they have another number of
    columns than its words.
    """
    num_columns = 0
    numbered = enumerate(lines or read_lines(path), 1)
    numbered = (x for x in numbered if not re.match(columns.ignored, x[1]))
    for is_blank, rows in itertools.groupby(numbered, lambda x: x[1].isspace()):
        rows = [] if is_blank else [*rows]
        head = [*itertools.takewhile(lambda x: x[1].startswith("# "), rows)]
        if rows := rows[len(head) :]:
            num_columns = len(_word_columns(rows[-1][1]))
        rows[:0] = [x for x in head if len(_word_columns(x[1])) == num_columns]
        words = []
        for place, line in rows:
            with bad_rows.at(path, place):
                word = parse_word(place, line, columns)
                check(word)
                words.append(word)
        if words and len(words) == len(rows):
            yield tuple(words)


def parse_word(number: int, line: str, columns: WordColumns) -> Word:
    """Parses a line; between two tabs an empty column is an empty word."""
    fields = _word_columns(line)
    if not any(fields[columns.word : columns.word + 1]):
        raise BadRowError(f"No word in column {columns.word + 1} of {fields}.")
    # The last column is the tag only if it is not the word's.
    least = columns.word + 1 if columns.tag < 0 else columns.tag
    tag = fields[columns.tag] if len(fields) > least else None
    return Word(number, fields[columns.word], tag or None)


def _word_columns(line: str) -> list[str]:
    """Splits a line at tabs, or else at spaces; words hold other blanks."""
    text = line.strip(" \r\n")
    if "\t" in text:
        fields = text.rstrip(" \t").split("\t")
    else:
        fields = re.split(" +", text)
    return [field.strip(" ") for field in fields]
