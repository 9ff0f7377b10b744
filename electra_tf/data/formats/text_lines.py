"""Converts arbitrary bytes to lines of text, in constant memory.

Every reader of a format uses this: it yields the lines of documents, "" for a
blank line, and None where a document ends in any case.
"""

import dataclasses
import io
from collections.abc import Iterator
from typing import BinaryIO

MAX_LINE_BYTES = 2**16
MAX_INVALID_SHARE = 0.1
MAX_BAD_LINE_SHARE = 0.2  # of a file

_BAD_LINES_BETWEEN_CHECKS = 10_000
_SAMPLE_BYTES = 2**16

TextLine = str | None


@dataclasses.dataclass
class Statistics:
    """Counts of what was read, repaired, cut or left out."""

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
        """Adds other counts."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)


LEFT_OUT = {
    "binary_lines": "lines as binary",
    "bad_json_lines": "lines as bad JSON",
    "skipped_members": "archived files as links, hidden, unsafe or not text",
    "oversized_members": "archived files as too large",
    "duplicate_documents": "documents as duplicates",
    "duplicate_bytes": "bytes of duplicates",
}
"""Count of `Statistics` -> what it counts, for messages."""


class BadLinesError(Exception):
    """Too many lines of a text are binary or not in UTF-8."""

    def __init__(self, tally: "Tally") -> None:
        super().__init__(f"{tally.num_bad} lines are not in UTF-8")
        self.tally = tally


@dataclasses.dataclass
class Tally:
    """Counts of good and bad lines, of a file or of all files in an archive."""

    num_good: int = 0
    num_bad: int = 0
    sample: bytes = b""

    def add_bad(self, raw: bytes) -> None:
        """Counts a bad line; calls `check` now and then."""
        self.num_bad += 1
        if len(self.sample) < _SAMPLE_BYTES:
            self.sample += raw
        if self.num_bad % _BAD_LINES_BETWEEN_CHECKS == 0:
            self.check()

    def check(self) -> None:
        """Checks that most of the lines are good."""
        num_lines = self.num_bad + self.num_good
        if self.num_bad > MAX_BAD_LINE_SHARE * num_lines:
            raise BadLinesError(self)


def read_lines(
    file: BinaryIO, statistics: Statistics, tally: Tally | None = None
) -> Iterator[TextLine]:
    """Reads lines, stripped of white space."""
    num_good = 0
    for raw in _pieces(file, statistics):
        statistics.text_bytes += len(raw)
        text = _decode(raw)
        if text is None:
            if tally:
                tally.num_good, num_good = tally.num_good + num_good, 0
                tally.add_bad(raw)
            text = _repair(raw, statistics)
        else:
            num_good += not text.isspace()
        if text is not None:
            yield text.strip()
    if tally:
        tally.num_good += num_good


def read_document(
    content: bytes, statistics: Statistics, tally: Tally | None = None
) -> Iterator[TextLine]:
    """Reads one document; the arguments are as for `read_lines`."""
    yield from filter(None, read_lines(io.BytesIO(content), statistics, tally))
    yield None


def _pieces(file: BinaryIO, statistics: Statistics) -> Iterator[bytes]:
    """Yields lines, those longer than `MAX_LINE_BYTES` in several pieces."""
    rest, is_cut = b"", False
    while piece := rest + file.readline(MAX_LINE_BYTES - len(rest)):
        rest, is_later_piece = b"", is_cut
        is_cut = len(piece) == MAX_LINE_BYTES and not piece.endswith(b"\n")
        if is_cut:
            cut = _last_border(piece)
            piece, rest = piece[:cut], piece[cut:]
            statistics.cut_lines += 1
        if piece.strip() or not (is_cut or is_later_piece):
            yield piece
        else:
            statistics.text_bytes += len(piece)


def _last_border(line: bytes) -> int:
    """Returns where to cut: after white space, else between characters."""
    cut = max(line.rfind(b" "), line.rfind(b"\t")) + 1
    if cut:
        return cut
    for cut in range(len(line) - 1, len(line) - 4, -1):
        if line[cut] & 0xC0 != 0x80:  # not inside a character
            return cut
    return len(line)


def _decode(raw: bytes) -> str | None:
    """Returns the line as text, or None if it is binary or not in UTF-8."""
    try:
        return None if b"\0" in raw else raw.decode()
    except UnicodeDecodeError:
        return None


def _repair(raw: bytes, statistics: Statistics) -> str | None:
    """Returns a bad line with U+FFFD for bad bytes, or None if it is binary."""
    num_invalid = len(raw) - len(raw.decode(errors="ignore").encode())
    if b"\0" in raw or num_invalid > len(raw) * MAX_INVALID_SHARE:
        statistics.binary_lines += 1
        return None
    statistics.replaced_bytes += num_invalid
    return raw.decode(errors="replace")
