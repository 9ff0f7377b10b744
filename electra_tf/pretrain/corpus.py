"""Corpora as streams of documents, read in constant memory."""

import dataclasses
import glob
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from electra_tf.pretrain import demo_corpus
from electra_tf.util.errors import UserError

DEMO = "demo"
MAX_LINE_BYTES = 2**16
MAX_DOCUMENT_CHARACTERS = 2**17
MAX_INVALID_SHARE = 0.1

_OPENERS = {".gz": gzip.open, ".xz": lzma.open}
_EXPANSIONS = {".gz": 3, ".xz": 4}  # text bytes per file byte, roughly


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


@dataclasses.dataclass(frozen=True)
class Source:
    """One file of a corpus, or the demo corpus.

    Attributes:
      path: the file's path, or "demo".
    """

    path: str

    @property
    def num_text_bytes(self) -> int:
        """About how many bytes of text it holds; 0 if that is not known."""
        if self.path == DEMO:
            return 0
        extension = os.path.splitext(self.path)[1]
        return os.path.getsize(self.path) * _EXPANSIONS.get(extension, 1)


def expand(patterns: Iterable[str]) -> list[Source]:
    """Finds the files of a corpus.

    Args:
      patterns: files, globs (`**` for any depth), directories (every file in
        them and below, but for hidden ones), or "demo".

    Returns:
      The sources, in the order of the patterns, by name within one; each once.

    Raises:
      UserError: if there is no pattern, or one that matches no file.
    """
    paths = dict.fromkeys(
        path for pattern in patterns for path in _matches(pattern)
    )
    if not paths:
        raise UserError(
            "A corpus is needed. Received: no --corpus. Name text files, globs "
            'or directories, as in --corpus="books/*.txt.gz", or --corpus=demo.'
        )
    return [Source(path) for path in paths]


def documents(
    sources: Iterable[Source],
    *,
    blanks_separate_docs: bool,
    statistics: Statistics,
    max_characters: int = MAX_DOCUMENT_CHARACTERS,
) -> Iterator[list[str]]:
    """Reads documents one after the other.

    A line is a "sentence"; a document ends at a blank line or with its file.
    A line of more than `MAX_LINE_BYTES` is cut, at white space if there is
    any, and a document of more than `max_characters` between lines: the pieces
    count as documents, so that a text without borders can still be split.

    Args:
      sources: what to read, in this order.
      blanks_separate_docs: whether a blank line ends a document; otherwise
        blank lines are left out.
      statistics: counts what is read.
      max_characters: of a document.

    Yields:
      The lines of a document, without white space around them and never blank.

    Raises:
      UserError: if a file cannot be read, naming it, or if there is no text.
    """
    for source in sources:
        statistics.files += 1
        num_before = statistics.documents
        lines = _read(source, statistics)
        for document in _group(
            lines, blanks_separate_docs, max_characters, statistics
        ):
            statistics.documents += 1
            statistics.lines += len(document)
            yield document
        statistics.empty_files += statistics.documents == num_before
    if not statistics.documents:
        raise UserError(
            "The corpus must hold text in UTF-8. Received: "
            f"{statistics.files} file(s) with {statistics.text_bytes} bytes, "
            f"{statistics.binary_lines} line(s) left out as binary."
        )


def _matches(pattern: str) -> list[str]:
    if pattern == DEMO or os.path.isfile(pattern):
        return [pattern]
    if os.path.isdir(pattern):
        paths = _files_below(pattern)
    else:
        paths = filter(os.path.isfile, glob.glob(pattern, recursive=True))
    if found := sorted(paths):
        return found
    raise UserError(
        "A corpus must name files, globs, directories that hold files, or "
        f'"demo". Received: corpus={pattern!r}, which matches no file.'
    )


def _files_below(directory: str) -> Iterator[str]:
    for parent, directories, names in os.walk(directory):
        directories[:] = [d for d in directories if not d.startswith(".")]
        yield from (
            os.path.join(parent, name)
            for name in names
            if not name.startswith(".")
        )


def _read(source: Source, statistics: Statistics) -> Iterator[str]:
    """Yields the lines of a source, stripped."""
    if source.path != DEMO:
        yield from _lines(source.path, statistics)
        return
    for document in demo_corpus.documents():
        for line in [*document, ""]:
            statistics.text_bytes += len(line.encode()) + 1
            yield line


def _group(
    lines: Iterable[str],
    blanks_separate_docs: bool,
    max_characters: int,
    statistics: Statistics,
) -> Iterator[list[str]]:
    """Joins lines to documents."""
    document: list[str] = []
    size = 0
    for line in lines:
        if line:
            if document and size + len(line) > max_characters:
                statistics.cut_documents += 1
                yield document
                document, size = [], 0
            document.append(line)
            size += len(line)
        elif document and blanks_separate_docs:
            yield document
            document, size = [], 0
    if document:
        yield document


def _lines(path: str, statistics: Statistics) -> Iterator[str]:
    opener = _OPENERS.get(os.path.splitext(path)[1], open)
    try:
        with opener(path, "rb") as file:
            for raw in _pieces(io.BufferedReader(file), statistics):
                statistics.text_bytes += len(raw)
                yield from _decode(raw, statistics)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"A corpus file must be readable. Received: {path}: {error}. "
            "Restore the file or leave it out of --corpus."
        ) from error


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


def _decode(raw: bytes, statistics: Statistics) -> Iterator[str]:
    """Yields the line as text, or nothing if it is binary."""
    num_invalid = 0
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode(errors="replace")
        num_invalid = len(raw) - len(raw.decode(errors="ignore").encode())
    if b"\0" in raw or num_invalid > len(raw) * MAX_INVALID_SHARE:
        statistics.binary_lines += 1
        return
    statistics.replaced_bytes += num_invalid
    yield text.strip()
