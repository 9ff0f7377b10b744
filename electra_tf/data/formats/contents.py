"""The content of a file, unpacked and identified by its first bytes."""

import codecs
import contextlib
import enum
import io
import os
import re
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.data.formats import compression, rows, text_lines
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError

HEAD_BYTES = 512  # the header of a tar archive
MAX_UNPACKED_BYTES = 2**26  # of text, whatever the size of its file
MAX_EXPANSION = 200  # bytes of a longer text per byte of its file
JSON_LINES = (".jsonl", ".ndjson")
"""File extensions of files with one JSON object per line."""

_JSON_EXTENSION = ".json"
_JSON_START = re.compile(rb"\s*[\[{]")
_JSON_DOCUMENT = re.compile(rb'\s*(\[\s*\{\s*"|\{\s*"[^"\n]*"\s*:)')
_CONVERT = "Convert it: iconv -f {} -t UTF-8 FILE > NEW_FILE"
_UNPACK = "Unpack it and name what is in it"
_UNSUPPORTED = {
    b"PK\x03\x04": ("a ZIP archive", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    b"%PDF-": ("a PDF document", "Extract its text, as with pdftotext"),
    b"ARROW1": ("an Arrow file", "Write it as Parquet or JSON lines"),
    b"\xff\xfe\0\0": ("UTF-32 text", _CONVERT.format("UTF-32")),
    b"\0\0\xfe\xff": ("UTF-32 text", _CONVERT.format("UTF-32")),
    b"\xff\xfe": ("UTF-16 text", _CONVERT.format("UTF-16")),
    b"\xfe\xff": ("UTF-16 text", _CONVERT.format("UTF-16")),
}
_CONTROLS = bytes({*range(32), 0x7F} - {*b"\t\n\v\f\r"})
_UTF_16 = ("UTF-16LE", "UTF-16BE")
_SEPARATORS = (" ", "\n", "\N{IDEOGRAPHIC COMMA}", "\N{IDEOGRAPHIC FULL STOP}")
_MIN_SEPARATOR_SHARE = 0.01  # other bytes read as UTF-16 have next to none
_MAX_CONTROL_SHARE = 0.01
_MAX_ACCENT_SHARE = 0.25  # of bytes beyond ASCII in text of Latin letters


class ContentKind(enum.Enum):
    """The kinds of content that are read."""

    TEXT = enum.auto()
    JSON_LINES = enum.auto()
    ARCHIVE = enum.auto()
    PARQUET = enum.auto()
    COMPRESSED = enum.auto()


class UnsupportedContentError(Exception):
    """A file is of a format that is not supported."""

    def __init__(self, what: str, way_out: str) -> None:
        super().__init__(what)
        self.what = what
        self.way_out = way_out


def ending(name: str) -> str:
    """Returns the extension of a file's name, without that of a compression."""
    if compression.is_compressed(name):
        name = os.path.splitext(name)[0]
    return os.path.splitext(name)[1].lower()


def unpack(
    name: str, file: BinaryIO
) -> tuple[str, ContentKind, io.BufferedReader]:
    """Decompresses a stream according to its name or else its first bytes."""
    plain_name, file = compression.decompress(name, file)
    is_packed = plain_name != name
    kind, content = identify(file)
    if kind is ContentKind.COMPRESSED:
        is_packed = True
        codec = compression.codec_of(content.peek(compression.HEAD_BYTES))
        kind, content = identify(codec.decompress(content))
    if is_packed and kind in (ContentKind.COMPRESSED, ContentKind.PARQUET):
        what = f"{kind.name.lower()} and packed once more"
        raise UnsupportedContentError(what, "Unpack it")
    return plain_name, kind, content


def open_text(name: str, file: BinaryIO) -> io.BufferedReader:
    """Opens a text, compressed or not."""
    _, kind, content = unpack(name, file)
    if kind is ContentKind.ARCHIVE:
        raise UnsupportedContentError("a tar archive", _UNPACK)
    if kind is ContentKind.PARQUET:
        raise UnsupportedContentError(
            "a Parquet file", "Write it as JSON lines"
        )
    return io.BufferedReader(_Bounded(content, file))


@contextlib.contextmanager
def opened(path: str) -> Iterator[io.BufferedReader]:
    """Opens a text file, and decompresses it if needed; see `open_text`."""
    with file_errors(path), storage.open_binary(path) as file:
        yield open_text(path, file)


@contextlib.contextmanager
def file_errors(name: str) -> Iterator[None]:
    """Adds the name of a file to the errors of reading it."""
    try:
        yield
    except UnsupportedContentError as error:
        raise UserError(
            f"{name} must be text in UTF-8. Received: {error.what}. "
            f"{error.way_out}."
        ) from error
    except compression.ERRORS as error:
        raise UserError(
            f"{name} must be a file that can be read. Received: {error}."
        ) from error


def identify(file: BinaryIO) -> tuple[ContentKind, io.BufferedReader]:
    """Identifies the content of a stream by its first bytes."""
    head = read_fully(file, HEAD_BYTES)
    for magic, (what, way_out) in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise UnsupportedContentError(what, way_out)
    head = head.removeprefix(codecs.BOM_UTF8)
    return _kind_of_head(head), _buffered(head, file)


def identify_lines(
    name: str, file: io.BufferedReader, *, is_member: bool = False
) -> tuple[ContentKind, io.BufferedReader]:
    """Distinguishes JSON lines from text by the name and the first line."""
    name = name.lower()
    if name.endswith(JSON_LINES):
        return ContentKind.JSON_LINES, file
    has_json_name = name.endswith(_JSON_EXTENSION)
    head = file.peek(HEAD_BYTES)[:HEAD_BYTES]
    if is_member and not has_json_name or not _JSON_START.match(head):
        return ContentKind.TEXT, file
    line, file = _first_line(file)
    return _kind_of_line(line, head, has_json_name), file


def likely_encodings(sample: bytes) -> list[str]:
    """Guesses the encoding of text that is not in UTF-8."""
    shares = {name: _share_of_separators(sample, name) for name in _UTF_16}
    likeliest = max(shares, key=shares.get)
    if shares[likeliest] > _MIN_SEPARATOR_SHARE:
        return [likeliest]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if controls > len(sample) * _MAX_CONTROL_SHARE:
        return []
    num_high = sum(byte >= 0x80 for byte in sample)
    if num_high > len(sample) * _MAX_ACCENT_SHARE:
        return ["GB18030", "SHIFT_JIS", "CP1251"]
    return ["ISO-8859-1", "CP1252"]


def _share_of_separators(sample: bytes, encoding: str) -> float:
    text = sample.decode(encoding, errors="ignore")
    return sum(map(text.count, _SEPARATORS)) / max(len(text), 1)


def read_fully(file: BinaryIO, size: int) -> bytes:
    """Reads `size` bytes or all there are; one `read` may return fewer."""
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _kind_of_head(head: bytes) -> ContentKind:
    if compression.codec_of(head):
        return ContentKind.COMPRESSED
    if head.startswith(b"PAR1"):
        return ContentKind.PARQUET
    return ContentKind.ARCHIVE if _is_archive(head) else ContentKind.TEXT


def _is_archive(head: bytes) -> bool:
    """Returns whether the first bytes of a file are those of a tar archive."""
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _kind_of_line(line: bytes, head: bytes, has_json_name: bool) -> ContentKind:
    """Distinguishes JSON lines from text by the first line."""
    try:
        value = files.parse_json(line)
    except ValueError:
        value = None
    if isinstance(value, dict) and (value or has_json_name):
        return ContentKind.JSON_LINES
    if has_json_name or _JSON_DOCUMENT.match(head):
        raise UnsupportedContentError(
            "one JSON document, or begins with a line that is no JSON object",
            "Write JSON lines, one object per line: jq -c '.[]' FILE > "
            "NEW_FILE.jsonl",
        )
    return ContentKind.TEXT


def _first_line(file: BinaryIO) -> tuple[bytes, io.BufferedReader]:
    """Returns the first line that is not blank, and the stream rewound."""
    head, line = b"", b"\n"
    while line and not line.strip():
        line = file.readline(rows.MAX_JSON_BYTES)
        head += line
    return line, _buffered(head, file)


def _buffered(head: bytes, file: BinaryIO) -> io.BufferedReader:
    return io.BufferedReader(_Rewound(head, file), text_lines.MAX_LINE_BYTES)


class _Rewound(io.RawIOBase):
    """A stream whose first bytes, `head`, have been read already."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head = memoryview(head)
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        content = self._head[: len(buffer)] or self._file.read(len(buffer))
        self._head = self._head[len(content) :]
        buffer[: len(content)] = content
        return len(content)


class _Bounded(io.RawIOBase):
    """An unpacked text that must not be very much longer than its file."""

    def __init__(self, content: BinaryIO, file: BinaryIO) -> None:
        self._content = content
        self._file = file
        self._num_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        size = self._content.readinto(buffer)
        self._num_bytes += size
        most = max(MAX_UNPACKED_BYTES, MAX_EXPANSION * self._file.tell())
        if self._num_bytes > most:
            raise OSError(
                f"a text of more than {MAX_EXPANSION} times the size of its "
                "file; decompress it first if that is right"
            )
        return size
