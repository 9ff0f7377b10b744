"""Text files, JSON lines, Parquet and archives, plain or compressed."""

import dataclasses
import io
import itertools
import posixpath
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data.formats import contents, text_lines, text_tables
from electra_tf.data.formats.contents import ContentKind
from electra_tf.data.formats.text_lines import Line, Statistics, Tally
from electra_tf.util import compression, storage
from electra_tf.util.errors import UserError

MAX_DEPTH = 2  # archives in an archive; OpenWebText has one level

_TABLES = {
    ContentKind.JSON_LINES: text_tables.read_json_lines,
    ContentKind.PARQUET: text_tables.read_parquet,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of reading files.

    Attributes:
      text_field: of an object of JSON lines, or the column of a Parquet file.
      skip_bad_lines: whether to leave lines or rows without a text out.
      max_member_bytes: of a text file in an archive.
    """

    text_field: str = "text"
    skip_bad_lines: bool = False
    max_member_bytes: int = 2**26

    @classmethod
    def of(cls, config: CorpusConfig) -> "Options":
        """Returns the options of a corpus."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: getattr(config, name) for name in names})


def read_file(
    path: str,
    statistics: Statistics,
    options: Options,
    *,
    start: int = 0,
    end: int | None = None,
) -> Iterator[Line]:
    """Reads a file.

    Its content is identified by its first bytes, JSON lines by the first line;
    names tell of compression and of JSON lines, too. A file in an archive is
    one document, whatever blank lines it has.

    Args:
      path: of the file.
      statistics: counts what is read.
      options: how to read it.
      start: byte to begin at; only of plain text and JSON lines.
      end: byte to end before; None for the file's end.

    Yields:
      Lines; "" for a blank line, and None where a document ends for sure.

    Raises:
      UserError: naming the file, if it cannot be read, or a line of it.
    """
    try:
        with storage.open_binary(path) as file:
            content = file
            if start or end:
                content = io.BufferedReader(
                    _Range(file, start, end), text_lines.MAX_LINE_BYTES
                )
            reader = _Reader(statistics, options)
            if start:
                yield from reader.lines(contents.kind_of(path), content)
            else:
                yield from reader.read(path, content)
            reader.tally.check()
    except text_tables.BadRowError as error:
        number = error.number + _num_lines(path, start)
        raise UserError(
            f"A line or row must be an object with a text in "
            f"{options.text_field!r}. Received: {path}, line {number}: "
            f"{error.problem}. Set --text_field, or --skip_bad_lines to leave "
            "such lines out."
        ) from error
    except contents.ForeignContentError as error:
        raise _foreign(path, error) from error
    except text_lines.BadLinesError as error:
        raise _not_utf8(path, error.tally) from error
    except compression.ERRORS as error:
        raise UserError(
            f"A corpus file must be readable. Received: {path}: {error}. "
            "Restore the file or leave it out of --corpus."
        ) from error


def kind_of(path: str) -> ContentKind:
    """Identifies the content of a file that its name says is not compressed.

    Args:
      path: of the file.

    Raises:
      UserError: if it is nothing that can be read, saying what it is.
    """
    try:
        return contents.kind_of(path)
    except contents.ForeignContentError as error:
        raise _foreign(path, error) from error


def _foreign(path: str, error: contents.ForeignContentError) -> UserError:
    return UserError(
        "A corpus file must hold text in UTF-8, JSON lines, Parquet or a tar "
        f"archive of such files. Received: {path}, which is {error.what}. "
        f"{error.way_out}, or leave it out of --corpus."
    )


def _not_utf8(path: str, tally: Tally) -> UserError:
    encodings = contents.likely_encodings(tally.sample)
    likely, way_out = "no text", "Leave it out of --corpus"
    if encodings:
        likely = " or ".join(encodings)
        way_out = f"Convert it: iconv -f {encodings[0]} -t UTF-8 FILE > NEW"
    return UserError(
        f"A corpus file must hold text in UTF-8. Received: {path}, of which "
        f"{tally.num_bad:,} of {tally.num_bad + tally.num_good:,} lines are "
        f"not; likely it is {likely}. {way_out}."
    )


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads a file, and those in it if it is an archive.

    Attributes:
      statistics: counts what is read.
      options: how to read it.
      tally: of the lines of all texts.
    """

    statistics: Statistics
    options: Options
    tally: Tally = dataclasses.field(default_factory=Tally)

    def read(self, name: str, file: BinaryIO, depth: int = 0) -> Iterator[Line]:
        """Yields the lines of a stream, whatever it holds."""
        name, unpacked = compression.decompress(name, file)
        is_member = depth > 0
        kind, content = contents.identify(name, unpacked, is_member=is_member)
        if kind is ContentKind.COMPRESSED:
            unpacked = compression.decompress_content(content)
            kind, content = contents.identify(
                name, unpacked, is_member=is_member
            )
        if kind is ContentKind.PARQUET and unpacked is file and not is_member:
            file.seek(0)
            content = file  # whose rows do not come one after the other
        elif kind in (ContentKind.PARQUET, ContentKind.COMPRESSED):
            raise contents.ForeignContentError(
                f"{kind.name.lower()} and packed once more", "Unpack it"
            )
        yield from self.lines(kind, content, depth)

    def lines(
        self, kind: ContentKind, file: BinaryIO, depth: int = 0
    ) -> Iterator[Line]:
        """Yields the lines of a stream of a kind."""
        if kind is ContentKind.ARCHIVE:
            yield from self._members(file, depth)
        elif kind in _TABLES:
            yield from _TABLES[kind](
                file,
                self.statistics,
                text_field=self.options.text_field,
                skip_bad_lines=self.options.skip_bad_lines,
            )
        elif not depth:
            yield from text_lines.read_lines(file, self.statistics, self.tally)
        else:
            max_bytes = self.options.max_member_bytes
            content = contents.read_fully(file, max_bytes + 1)
            if len(content) > max_bytes:
                self.statistics.oversized_members += 1
                return
            yield from text_lines.read_document(
                content, self.statistics, self.tally
            )

    def _members(self, file: BinaryIO, depth: int) -> Iterator[Line]:
        """Yields the lines of the files in an archive."""
        if depth > MAX_DEPTH:
            self.statistics.skipped_members += 1
            return
        for name, member in _archived_files(file, self.statistics):
            try:
                yield from self.read(name, member, depth + 1)
            except contents.ForeignContentError:
                self.statistics.skipped_members += 1
            except text_tables.BadRowError as error:
                problem = f"of {name}: {error.problem}"
                raise text_tables.BadRowError(error.number, problem) from error


def _archived_files(
    file: BinaryIO, statistics: Statistics
) -> Iterator[tuple[str, BinaryIO]]:
    """Reads the files of an archive, one after the other.

    Links, devices, hidden files, absolute paths and paths with ".." are left
    out and counted: nothing is ever extracted, but who packs them may mean
    harm, and what they hold is no text.

    Args:
      file: the archive.
      statistics: counts what is left out.

    Yields:
      The name and the content of each file, to be read before the next.
    """
    with tarfile.open(fileobj=file, mode="r|") as archive:
        for member in archive:
            if member.isdir():
                continue
            if member.isreg() and _is_safe(member.name):
                yield member.name, archive.extractfile(member)
            else:
                statistics.skipped_members += 1
            archive.members = []  # else all of them stay in memory


def _is_safe(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    is_hidden = posixpath.basename(name).startswith(".")
    return not (is_hidden or name.startswith(("/", "\\")) or ".." in parts)


class _Range(io.RawIOBase):
    """A range of bytes of a file.

    Args:
      file: the file.
      start: the first of them.
      end: the first after them; None for the file's end.
    """

    def __init__(self, file: BinaryIO, start: int, end: int | None) -> None:
        file.seek(start)
        self._file = file
        self._num_left = None if end is None else end - start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        size = len(buffer)
        if self._num_left is not None:
            size = min(size, self._num_left)
        content = self._file.read(size)
        if self._num_left is not None:
            self._num_left -= len(content)
        buffer[: len(content)] = content
        return len(content)


def _num_lines(path: str, end: int) -> int:
    """Counts the lines before a byte."""
    count = 0
    with storage.open_binary(path) as file:
        for start in itertools.count(step=2**20):
            if start >= end:
                return count
            count += file.read(min(2**20, end - start)).count(b"\n")
