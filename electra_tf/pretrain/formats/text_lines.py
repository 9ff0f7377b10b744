"""Bytes as lines of text, whatever they hold, in constant memory.

Every format ends here: a reader yields the lines of documents, "" for a blank
line, and None where a document ends for sure.
"""

import dataclasses
import io
from collections.abc import Iterator
from typing import BinaryIO

MAX_LINE_BYTES = 2**16
MAX_INVALID_SHARE = 0.1
MAX_BAD_LINE_SHARE = 0.2  # of a file

_BAD_LINES_BETWEEN_CHECKS = 10_000

Line = str | None


@dataclasses.dataclass
class Statistics:
    """What was read, and what was repaired, cut or left out on the way.

    Attributes:
      files: files read; the demo corpus counts as one.
      empty_files: those without any text.
      text_bytes: bytes of unpacked text.
      lines: lines with text; the pieces of a cut line count one by one.
      documents: documents; the pieces of a cut document count one by one.
      cut_lines: cuts in lines longer than `MAX_LINE_BYTES`.
      cut_documents: cuts in documents that were too long.
      replaced_bytes: bytes that were not UTF-8, read as U+FFFD.
      binary_lines: lines left out: those with a NUL byte, or with more than
        `MAX_INVALID_SHARE` of their bytes not UTF-8.
      bad_json_lines: lines of JSON lines and rows of Parquet left out, as
        --skip_bad_lines asks.
      skipped_members: files in archives left out: links, devices, hidden
        files, absolute paths, paths with "..", archives nested too deep, and
        what is no text by its first bytes.
      oversized_members: files in archives left out for their size.
      duplicate_documents: documents left out as --drop_duplicates asks; they
        count in `documents` too.
      duplicate_bytes: bytes of their lines.
    """

    files: int = 0
    empty_files: int = 0
    text_bytes: int = 0
    lines: int = 0
    documents: int = 0
    cut_lines: int = 0
    cut_documents: int = 0
    replaced_bytes: int = 0
    binary_lines: int = 0
    bad_json_lines: int = 0
    skipped_members: int = 0
    oversized_members: int = 0
    duplicate_documents: int = 0
    duplicate_bytes: int = 0

    def add(self, other: "Statistics") -> None:
        """Adds what was read elsewhere."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)


class BadLinesError(Exception):
    """A text of which too many lines are not in UTF-8, or binary.

    Attributes:
      num_bad: of these.
      num_lines: of all that are not blank, up to the last of them.
    """

    def __init__(self, num_bad: int, num_lines: int) -> None:
        super().__init__(f"{num_bad} of {num_lines} lines are not UTF-8")
        self.num_bad = num_bad
        self.num_lines = num_lines


def read(
    file: BinaryIO, statistics: Statistics, *, max_bad_share: float = 1.0
) -> Iterator[Line]:
    """Reads lines, stripped of white space.

    A line of more than `MAX_LINE_BYTES` is cut, at white space if there is
    any.

    Args:
      file: of text, more or less in UTF-8.
      statistics: counts what is read.
      max_bad_share: share of the lines, blank ones not counted, that may hold
        NUL bytes or bytes that are not UTF-8.

    Yields:
      The lines; "" for blank ones.

    Raises:
      BadLinesError: if more are bad.
    """
    num_good = num_bad = 0
    for raw in _pieces(file, statistics):
        statistics.text_bytes += len(raw)
        text = _decode(raw)
        if text is not None:
            text = text.strip()
            num_good += text != ""
            yield text
            continue
        num_bad += 1
        if num_bad % _BAD_LINES_BETWEEN_CHECKS == 0:
            _check_lines(num_bad, num_good, max_bad_share)
        text = _repair(raw, statistics)
        if text is not None:
            yield text.strip()
    _check_lines(num_bad, num_good, max_bad_share)


def _check_lines(num_bad: int, num_good: int, max_bad_share: float) -> None:
    num_lines = num_bad + num_good
    if num_bad > max_bad_share * num_lines:
        raise BadLinesError(num_bad, num_lines)


def read_document(content: bytes, statistics: Statistics) -> Iterator[Line]:
    """Reads one document.

    Args:
      content: its text.
      statistics: counts what is read.

    Yields:
      The lines that are not blank, and None.
    """
    yield from filter(None, read(io.BytesIO(content), statistics))
    yield None


def _pieces(file: BinaryIO, statistics: Statistics) -> Iterator[bytes]:
    """Yields lines, those longer than `MAX_LINE_BYTES` in several pieces."""
    rest = b""
    while piece := rest + file.readline(MAX_LINE_BYTES - len(rest)):
        rest = b""
        if len(piece) == MAX_LINE_BYTES and not piece.endswith(b"\n"):
            cut = _last_border(piece)
            piece, rest = piece[:cut], piece[cut:]
            statistics.cut_lines += 1
        yield piece


def _last_border(line: bytes) -> int:
    """Returns where to cut: after white space, else between characters."""
    if cut := max(line.rfind(b" "), line.rfind(b"\t")) + 1:
        return cut
    for cut in range(len(line) - 1, len(line) - 4, -1):
        if line[cut] & 0xC0 != 0x80:  # not inside a character
            return cut
    return len(line)


def _decode(raw: bytes) -> str | None:
    """Returns the line as text, or None if it is not in UTF-8 or binary."""
    try:
        return None if b"\0" in raw else raw.decode()
    except UnicodeDecodeError:
        return None


def _repair(raw: bytes, statistics: Statistics) -> str | None:
    """Returns what can be read of a bad line, or None if it is binary."""
    num_invalid = len(raw) - len(raw.decode(errors="ignore").encode())
    if b"\0" in raw or num_invalid > len(raw) * MAX_INVALID_SHARE:
        statistics.binary_lines += 1
        return None
    statistics.replaced_bytes += num_invalid
    return raw.decode(errors="replace")
