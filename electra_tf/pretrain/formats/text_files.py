"""Text files, JSON lines and archives of them, plain or compressed."""

import dataclasses
import io
import itertools
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.configure_corpus import CorpusConfig
from electra_tf.pretrain.formats import archives, json_lines, text_lines
from electra_tf.pretrain.formats.text_lines import Line, Statistics
from electra_tf.util import compression, storage
from electra_tf.util.errors import UserError

MAX_DEPTH = 2  # archives in an archive; OpenWebText has one level


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How files are read.

    Attributes:
      text_field: of an object in a .jsonl file.
      skip_bad_lines: whether to leave bad lines of .jsonl files out.
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


def read(
    path: str,
    statistics: Statistics,
    options: Options,
    *,
    start: int = 0,
    end: int | None = None,
) -> Iterator[Line]:
    """Reads a file.

    Compression and JSON lines are told by the name, archives by the content.
    A file in an archive is one document, whatever blank lines it has.

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
            content = _Range(file, start, end) if start or end else file
            yield from _read(path, content, statistics, options)
    except json_lines.BadLineError as error:
        number = error.number + _num_lines(path, start)
        raise UserError(
            f"A line must be a JSON object with a text in "
            f"{options.text_field!r}. Received: {path}, line {number}: "
            f"{error.problem}. Set --text_field, or --skip_bad_lines to leave "
            "such lines out."
        ) from error
    except compression.ERRORS as error:
        raise UserError(
            f"A corpus file must be readable. Received: {path}: {error}. "
            "Restore the file or leave it out of --corpus."
        ) from error


def read_head(path: str) -> bytes:
    """Returns the first bytes of an uncompressed file, to tell an archive."""
    with storage.open_binary(path) as file:
        return file.read(archives.HEADER_BYTES)


def _read(
    name: str,
    file: BinaryIO,
    statistics: Statistics,
    options: Options,
    depth: int = 0,
) -> Iterator[Line]:
    name, file = compression.decompress(name, file)
    head = _read_fully(file, archives.HEADER_BYTES)
    file = io.BufferedReader(_Rewound(head, file), text_lines.MAX_LINE_BYTES)
    if archives.is_archive(head):
        if depth > MAX_DEPTH:
            statistics.skipped_members += 1
            return
        for member_name, member in archives.members(file, statistics):
            try:
                yield from _read(
                    member_name, member, statistics, options, depth + 1
                )
            except json_lines.BadLineError as error:
                problem = f"of {member_name}: {error.problem}"
                raise json_lines.BadLineError(error.number, problem) from error
    elif name.lower().endswith(json_lines.EXTENSIONS):
        yield from json_lines.read(
            file,
            statistics,
            text_field=options.text_field,
            skip_bad_lines=options.skip_bad_lines,
        )
    elif not depth:
        yield from text_lines.read(file, statistics)
    else:
        content = _read_fully(file, options.max_member_bytes + 1)
        if len(content) > options.max_member_bytes:
            statistics.oversized_members += 1
        else:
            yield from text_lines.read_document(content, statistics)


class _Rewound(io.RawIOBase):
    """A stream whose first bytes have been read already.

    Args:
      head: those bytes.
      file: the rest.
    """

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head = head
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        content = self._head[: len(buffer)] or self._file.read(len(buffer))
        self._head = self._head[len(content) :] if self._head else b""
        buffer[: len(content)] = content
        return len(content)


class _Range(io.RawIOBase):
    """Some bytes of a file.

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


def _read_fully(file: BinaryIO, size: int) -> bytes:
    """Reads so many bytes or all there are; one read may give fewer."""
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _num_lines(path: str, end: int) -> int:
    """Counts the lines before a byte."""
    count = 0
    with storage.open_binary(path) as file:
        for start in itertools.count(step=2**20):
            if start >= end:
                return count
            count += file.read(min(2**20, end - start)).count(b"\n")
