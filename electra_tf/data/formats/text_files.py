"""Text files, JSON lines, Parquet and archives, plain or compressed."""

import dataclasses
import io
import math
import posixpath
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.formats import compression, contents, rows, text_lines
from electra_tf.data.formats.contents import ContentKind
from electra_tf.data.formats.rows import (
    BadRowError,
    Record,
    describe_place,
    json_records,
    received_columns,
)
from electra_tf.data.formats.text_lines import Statistics, Tally, TextLine
from electra_tf.util import optional_packages, storage
from electra_tf.util.errors import UserError

MAX_DEPTH = 2  # archives in an archive; OpenWebText has one level
MAX_HEADER_BYTES = 2**15  # of a long name or other metadata of a member

_BATCH_ROWS = 256  # of Parquet
_PARQUET_TEXTS = ("string", "large_string", "string_view")

_LONG_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)

# Errors other than its own that tarfile raises for some headers; and those
# that it takes for the end of an archive, whatever follows.
_BAD_HEADERS = (
    *(LookupError, OverflowError, RecursionError, ValueError),
    *(tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError),
)


def read_file(
    path: str,
    statistics: Statistics,
    config: CorpusConfig,
    *,
    start: int = 0,
    end: int | None = None,
) -> Iterator[TextLine]:
    """Reads the lines of a file."""
    try:
        with storage.open_binary(path) as file:
            content = file
            if start or end:
                content = io.BufferedReader(
                    _Range(file, start, end), text_lines.MAX_LINE_BYTES
                )
            reader = _Reader(statistics, config)
            if start:
                yield from reader.lines(kind_of(path), content)
            else:
                yield from reader.read(path, content)
            reader.tally.check()
    except BadRowError as error:
        place = error.place
        if isinstance(place, int):
            place += _num_lines(path, start)
        raise UserError(f"{path}, {describe_place(place)}: {error}") from error
    except contents.UnsupportedContentError as error:
        raise _unsupported(path, error) from error
    except text_lines.BadLinesError as error:
        raise _not_utf8(path, error.tally) from error
    except compression.ERRORS as error:
        raise UserError(
            f"A corpus file must be readable. Received: {path}: {error}. "
            "Restore the file or leave it out of --corpus."
        ) from error


def kind_of(path: str) -> ContentKind:
    """Identifies the content of a file; nothing is decompressed."""
    if compression.is_compressed(path):
        return ContentKind.COMPRESSED
    try:
        with storage.open_binary(path) as file:
            kind, content = contents.identify(file)
            if kind is ContentKind.TEXT:
                kind, _ = contents.identify_lines(path, content)
            return kind
    except contents.UnsupportedContentError as error:
        raise _unsupported(path, error) from error


def _unsupported(
    path: str, error: contents.UnsupportedContentError
) -> UserError:
    return UserError(
        "A corpus file must hold text in UTF-8, JSON lines, Parquet or a tar "
        f"archive of such files. Received: {path}, which is {error.what}. "
        f"{error.way_out}, or leave it out of --corpus."
    )


def _not_utf8(path: str, tally: Tally) -> UserError:
    encodings = contents.likely_encodings(tally.sample)
    likely, way_out = "binary", "Leave it out of --corpus"
    if encodings:
        likely = " or ".join(encodings)
        way_out = f"Convert it: iconv -f {encodings[0]} -t UTF-8 FILE > NEW"
    return UserError(
        f"A corpus file must hold text in UTF-8. Received: {path}, of which "
        f"{tally.num_bad:,} of {tally.num_bad + tally.num_good:,} lines are "
        f"not; it is probably {likely}. {way_out}."
    )


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads a file, and its members if it is an archive."""

    statistics: Statistics
    config: CorpusConfig
    tally: Tally = dataclasses.field(default_factory=Tally)

    def read(
        self, name: str, file: BinaryIO, depth: int = 0
    ) -> Iterator[TextLine]:
        """Yields the lines of a stream of any kind."""
        name, kind, content = contents.unpack(name, file)
        if kind is ContentKind.TEXT:
            kind, content = contents.identify_lines(
                name, content, is_member=depth > 0
            )
        elif kind is ContentKind.PARQUET:
            if depth:
                raise contents.UnsupportedContentError("Parquet", "Unpack it")
            file.seek(0)
            content = file  # Parquet needs random access
        yield from self.lines(kind, content, depth)

    def lines(
        self, kind: ContentKind, file: BinaryIO, depth: int = 0
    ) -> Iterator[TextLine]:
        """Yields the lines of a stream of a known kind."""
        if kind is ContentKind.ARCHIVE:
            yield from self._members(file, depth)
        elif kind is ContentKind.JSON_LINES:
            records = json_records(_json_lines(file), allows_surrogates=True)
            yield from self._documents(records)
        elif kind is ContentKind.PARQUET:
            records = _parquet_records(file, self.config.text_field)
            yield from self._documents(records)
        elif not depth:
            yield from text_lines.read_lines(file, self.statistics, self.tally)
        else:
            max_bytes = self.config.max_member_bytes
            content = contents.read_fully(file, max_bytes + 1)
            if len(content) > max_bytes:
                self.statistics.oversized_members += 1
                return
            yield from text_lines.read_document(
                content, self.statistics, self.tally
            )

    def _documents(self, records: Iterable[Record]) -> Iterator[TextLine]:
        """Yields the lines of documents, one document per record."""
        for record in records:
            try:
                text = record.string(self.config.text_field)
            except BadRowError as error:
                if not self.config.skip_bad_lines:
                    way_out = "Correct it"
                    if not record.problem:
                        way_out = _set_field(self.config.text_field)
                    raise BadRowError(
                        f"{error} {way_out}; or set --skip_bad_lines to skip "
                        "such lines.",
                        record.place,
                    ) from error
                self.statistics.bad_json_lines += 1
            else:
                content = text.encode(errors="surrogatepass")
                yield from text_lines.read_document(content, self.statistics)

    def _members(self, file: BinaryIO, depth: int) -> Iterator[TextLine]:
        """Yields the lines of the files in an archive."""
        if depth > MAX_DEPTH:
            self.statistics.skipped_members += 1
            return
        for name, member in _archived_files(file, self.statistics):
            try:
                yield from self.read(name, member, depth + 1)
            except contents.UnsupportedContentError:
                self.statistics.skipped_members += 1
            except BadRowError as error:
                problem = f"of {name}: {error}"
                raise BadRowError(problem, error.place) from error


def _json_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields lines; a line over the limit is cut, but stays over the limit."""
    while line := file.readline(rows.MAX_JSON_BYTES + 1):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(rows.MAX_JSON_BYTES)


def _parquet_records(file: BinaryIO, column: str) -> Iterator[Record]:
    """Reads a column of a Parquet file, one record per row."""
    arrow = optional_packages.load("pyarrow")
    parquet = optional_packages.load("pyarrow.parquet")
    try:
        opened = parquet.ParquetFile(file)
        _check_column(opened.schema_arrow, column)
        number = 0
        for batch in opened.iter_batches(_BATCH_ROWS, columns=[column]):
            for value in batch.column(0):
                number += 1
                yield _parquet_record(f"row {number}", column, value)
    except arrow.ArrowException as error:
        raise OSError(str(error)) from error


def _parquet_record(place: str, column: str, value: Any) -> Record:  # noqa: ANN401
    """Makes a record of a value; nothing checks that texts are UTF-8."""
    try:
        return Record(place, {column: value.as_py()})
    except UnicodeDecodeError:
        return Record(place, {}, "A row must be UTF-8 text.")


def _check_column(schema: Any, column: str) -> None:  # noqa: ANN401
    """Checks that there is a column of texts."""
    if column not in schema.names:
        raise BadRowError(
            f"There must be a column {column!r}. "
            f"{received_columns(column, schema.names)} {_set_field(column)}.",
            place="columns",
        )
    kind = schema.field(column).type
    if str(kind) not in _PARQUET_TEXTS:
        raise BadRowError(
            f"Column {column!r} must hold texts. Received: {kind}. "
            f"{_set_field(column)}.",
            place="columns",
        )


def _set_field(name: str) -> str:
    return f"Set --text_field, now {name}, to the name of the text field"


def _archived_files(
    file: BinaryIO, statistics: Statistics
) -> Iterator[tuple[str, BinaryIO]]:
    """Reads the files of an archive, one after the other."""
    # Archives may be joined: there may be more after the first end mark.
    with tarfile.open(
        fileobj=file, mode="r|", tarinfo=_Header, ignore_zeros=True
    ) as archive:
        for member in archive:
            if member.isdir():
                continue
            if member.isreg() and _is_safe(member.name):
                yield member.name, archive.extractfile(member)
            else:
                statistics.skipped_members += 1
            archive.members = []  # else all of them stay in memory


class _Header(tarfile.TarInfo):
    """A header of an archive, of a bounded size."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> tarfile.TarInfo:
        try:
            return super().fromtarfile(archive)
        except _BAD_HEADERS as error:
            raise tarfile.ReadError(
                f"a bad header at byte {archive.offset:,}: {error}"
            ) from error

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        # These are read as a whole, and a compressed archive may state any
        # size for them.
        if self.type in _LONG_HEADERS and self.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(
                f"a header of {self.size:,} bytes, more than {MAX_HEADER_BYTES}"
            )
        return super()._proc_member(archive)


def _is_safe(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    is_hidden = posixpath.basename(name).startswith(".")
    return not (is_hidden or name.startswith(("/", "\\")) or ".." in parts)


class _Range(io.RawIOBase):
    """The bytes of a file from `start` up to `end`; None: up to its end."""

    def __init__(self, file: BinaryIO, start: int, end: int | None) -> None:
        file.seek(start)
        self._file = file
        self._num_left = math.inf if end is None else end - start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        content = self._file.read(min(len(buffer), self._num_left))
        self._num_left -= len(content)
        buffer[: len(content)] = content
        return len(content)


def _num_lines(path: str, end: int) -> int:
    """Counts the lines before a byte."""
    with storage.open_binary(path) as file:
        before = io.BufferedReader(_Range(file, 0, end))
        blocks = iter(lambda: before.read(2**20), b"")
        return sum(block.count(b"\n") for block in blocks)
