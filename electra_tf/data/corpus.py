"""Corpora as streams of documents, read in constant memory.

Files hold text in UTF-8, JSON lines, Parquet or tar archives of texts and JSON
lines, compressed or not; other sources are the prepared data sets of
TensorFlow Datasets, and the demo corpus.
"""

import codecs
import dataclasses
import glob
import io
import itertools
import math
import os
import tarfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import demo_corpus, prepared, tables
from electra_tf.data.tables import BadRowError, Row
from electra_tf.util.errors import UserError

DEMO = "demo"
TFDS = "tfds:"
MAX_LINE_BYTES = 2**16
MAX_DOCUMENT_CHARACTERS = 2**17

_JSON_LINES = (*tables.JSON_LINES, ".json")  # C4 calls its JSON lines .json
_EXPANSION = {".gz": 3, ".xz": 4, ".bz2": 4, ".zst": 3}
_EXPANSION |= {f".t{ending[1:]}": n for ending, n in _EXPANSION.items()}
_PARQUET_ROWS = 256  # in memory at once

TextLine = str | None
"""A line of a document: "" if it is blank, None where a document ends."""


@dataclasses.dataclass
class Statistics:
    """Counts of what was read, cut or left out."""

    files: int = 0
    text_bytes: int = 0
    lines: int = 0
    documents: int = 0
    cut_lines: int = 0
    cut_documents: int = 0
    bad_lines: int = 0
    skipped_members: int = 0
    duplicate_documents: int = 0
    duplicate_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class TextSource:
    """A file of a corpus or a range of it, a data set, or the demo corpus."""

    path: str
    split: str = ""
    start: int = 0
    end: int | None = None

    @property
    def num_text_bytes(self) -> int:
        """Approximate size of its text in bytes; 0 if it is not known."""
        if self.path == DEMO:
            return 0
        if self.split:
            return prepared.num_bytes(self.path, self.split)
        end = _size(self.path) if self.end is None else self.end
        ending = os.path.splitext(self.path)[1].lower()
        return (end - self.start) * _EXPANSION.get(ending, 1)


def _size(path: str) -> int:
    import tensorflow as tf

    return tf.io.gfile.stat(path).length


def expand(
    patterns: Iterable[str],
    *,
    tfds_data_dir: str = "",
    leave_out: Iterable[str] = (),
) -> list[TextSource]:
    """Finds the sources of a corpus, each once.

    Globs and directories do not stand for what is at, or below, a path of
    `leave_out`.
    """
    left_out = [_real_path(path.rstrip("/")) for path in leave_out]
    sources: dict[tuple[str, str], TextSource] = {}
    for pattern in patterns:
        if pattern.startswith(TFDS):
            name, _, split = pattern.removeprefix(TFDS).partition(":")
            split = split or "train"
            directory = prepared.find_data_set(name, tfds_data_dir)
            if not prepared.has_split(directory, split):
                raise UserError(f"{directory} has no split {split!r}.")
            found = [TextSource(directory, split)]
        elif pattern == DEMO:
            found = [TextSource(DEMO)]
        else:
            found = map(TextSource, _find_files(pattern, left_out))
        for source in found:
            key = _real_path(source.path), source.split
            sources.setdefault(key, source)
    if not sources:
        raise UserError("A corpus is needed: --corpus=demo or text files.")
    return list(sources.values())


def _find_files(pattern: str, left_out: list[str]) -> list[str]:
    """Finds the files of a path, glob or directory, without hidden ones."""
    if "://" in pattern:
        paths = _find_remote_files(pattern)
    elif os.path.isfile(pattern):
        return [pattern]
    else:
        is_directory = os.path.isdir(pattern)
        below = os.path.join(glob.escape(pattern), "**")
        found = glob.glob(below if is_directory else pattern, recursive=True)
        paths = list(filter(os.path.isfile, found))
    root = pattern
    while {*"*?["} & {*root}:
        root = os.path.dirname(root)
    for place in left_out:
        if not _is_in(root or ".", place):
            paths = [path for path in paths if not _is_in(path, place)]
    if not paths:
        raise UserError(f"--corpus={pattern} matches no file.")
    return sorted(paths)


def _find_remote_files(pattern: str) -> list[str]:
    import tensorflow as tf

    if not tf.io.gfile.isdir(pattern):
        return tf.io.gfile.glob(pattern)
    return [
        os.path.join(directory, name)
        for directory, _, names in tf.io.gfile.walk(pattern)
        for name in names
        if "/." not in f"{directory}/{name}"
    ]


def _is_in(path: str, place: str) -> bool:
    """Returns whether a path is a real path, or below it."""
    return f"{_real_path(path)}/".startswith(f"{place}/")


def _real_path(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def split_source(
    source: TextSource, num_bytes: int, *, blanks_separate_docs: bool
) -> list[TextSource]:
    """Splits a source into ranges that can be read independently."""
    path = source.path
    if path == DEMO or source.split or _size(path) <= num_bytes:
        return [source]
    is_json = path.lower().endswith(_JSON_LINES)
    if not is_json:
        with tables.open_file(path) as file:
            is_text = blanks_separate_docs and not _is_tar(file)
        if not is_text or path.lower().endswith((".parquet", *_EXPANSION)):
            return [source]
    starts = [0]
    with tables.open_file(path) as file:
        for cut in range(num_bytes, _size(path), num_bytes):
            if starts[-1] < cut:
                file.seek(cut - 1)
                starts.append(_next_document(file, is_json))
    starts = [start for start in starts if start < _size(path)]
    return [
        TextSource(path, start=start, end=end)
        for start, end in itertools.zip_longest(starts, starts[1:])
    ]


def _next_document(file: BinaryIO, is_json: bool) -> int:
    """Returns where the next document starts, or the end of the file."""
    is_inside = True  # of a line whose beginning is unknown
    while piece := file.readline(MAX_LINE_BYTES):
        is_whole = piece.endswith(b"\n")
        if is_whole and (is_json or not (is_inside or piece.strip())):
            break
        is_inside = not is_whole
    return file.tell()


def read_documents(
    sources: Iterable[TextSource],
    config: CorpusConfig,
    *,
    statistics: Statistics,
    max_characters: int = MAX_DOCUMENT_CHARACTERS,
    must_have_text: bool = True,
) -> Iterator[list[str]]:
    """Reads the documents of sources one after the other."""
    reader = _Reader(config, statistics)
    for source in sources:
        statistics.files += source.start == 0
        for document in reader.documents(source, max_characters):
            statistics.documents += 1
            statistics.lines += len(document)
            yield document
    if must_have_text and not statistics.documents:
        raise UserError(f"The corpus holds no text: {statistics}.")


@dataclasses.dataclass
class _Reader:
    """Reads documents, as stripped lines."""

    config: CorpusConfig
    statistics: Statistics

    def documents(
        self, source: TextSource, max_characters: int
    ) -> Iterator[list[str]]:
        """Joins the lines of a source into documents."""
        document: list[str] = []
        size = 0
        for line in self._read(source):
            if line:
                if document and size + len(line) > max_characters:
                    self.statistics.cut_documents += 1
                    yield document
                    document, size = [], 0
                document.append(line)
                size += len(line)
            elif document and (
                self.config.blanks_separate_docs or line is None
            ):
                yield document
                document, size = [], 0
        if document:
            yield document

    def _read(self, source: TextSource) -> Iterator[TextLine]:
        path = source.path
        if path == DEMO:
            for document in demo_corpus.documents():
                for line in [*document, ""]:
                    self.statistics.text_bytes += len(line.encode()) + 1
                    yield line
        elif source.split:
            field = self.config.text_field
            for text in prepared.read_texts(path, source.split, field):
                yield from self._document(text)
        else:
            try:
                with tables.naming_file(path), tables.open_file(path) as file:
                    yield from self._file(source, file)
            except BadRowError as error:
                place = error.place
                if source.start:
                    with tables.open_file(path) as file:
                        place += file.read(source.start).count(b"\n")
                where = tables.describe_place(place)
                raise UserError(f"{path}, {where}: {error}") from error

    def _file(self, source: TextSource, file: BinaryIO) -> Iterator[TextLine]:
        if tables.file_ending(source.path) == ".parquet":
            rows = _parquet_rows(file, self.config.text_field)
            yield from self._documents(rows)
        elif not source.start and _is_tar(file):
            yield from self._archive(file)
        else:
            if source.start:
                file.seek(source.start)
            end = math.inf if source.end is None else source.end
            yield from self._lines(source.path, file, end - source.start)

    def _archive(self, file: BinaryIO) -> Iterator[TextLine]:
        """Yields the lines of the files of an archive, each one document."""
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                name = os.path.basename(member.name)
                if member.isreg() and not name.startswith("."):
                    content = archive.extractfile(member)
                    try:
                        lines = self._lines(
                            name, tables.decompress(name, content)
                        )
                        yield from (line for line in lines if line != "")
                    except BadRowError as error:
                        place = f"{member.name}, line {error.place}"
                        raise BadRowError(str(error), place) from error
                    yield None
                else:
                    self.statistics.skipped_members += not member.isdir()
                archive.members = []  # else all of them stay in memory

    def _lines(
        self, name: str, file: BinaryIO, num_bytes: float = math.inf
    ) -> Iterator[TextLine]:
        """Yields the lines of text, or of the documents of JSON lines."""
        if file.peek(3).startswith(codecs.BOM_UTF8):
            num_bytes -= len(file.read(3))
        if tables.file_ending(name) in _JSON_LINES:
            rows = tables.json_rows(_raw_lines(file, num_bytes))
            yield from self._documents(rows)
        else:
            yield from self._text_lines(file, num_bytes)

    def _documents(self, rows: Iterable[Row]) -> Iterator[TextLine]:
        """Yields the lines of documents, one document per row."""
        for row in rows:
            try:
                text = row.value(self.config.text_field, str)
            except BadRowError as error:
                if not self.config.skip_bad_lines:
                    raise BadRowError(str(error), row.place) from error
                self.statistics.bad_lines += 1
            else:
                yield from self._document(text)

    def _document(self, text: str) -> Iterator[TextLine]:
        """Yields the lines of one document; JSON may have lone surrogates."""
        file = io.BytesIO(text.encode(errors="surrogatepass"))
        yield from filter(None, self._text_lines(file, errors="replace"))
        yield None

    def _text_lines(
        self,
        file: BinaryIO,
        num_bytes: float = math.inf,
        errors: str = "strict",
    ) -> Iterator[str]:
        """Yields lines, those over `MAX_LINE_BYTES` in several pieces."""
        number, rest, is_cut = 1, b"", False
        while num_bytes > 0 and (
            piece := rest + file.readline(MAX_LINE_BYTES - len(rest))
        ):
            num_bytes -= len(piece) - len(rest)
            rest, is_later_piece = b"", is_cut
            is_cut = len(piece) == MAX_LINE_BYTES and not piece.endswith(b"\n")
            if is_cut:
                cut = _last_border(piece)
                piece, rest = piece[:cut], piece[cut:]
                self.statistics.cut_lines += 1
            self.statistics.text_bytes += len(piece)
            try:
                text = piece.decode(errors=errors).strip()
            except UnicodeDecodeError:
                text = "\0"
            if "\0" in text and errors == "strict":  # as in UTF-16
                if not self.config.skip_bad_lines:
                    raise BadRowError("not text in UTF-8.", number)
                self.statistics.bad_lines += 1
            elif "\r" in text:
                yield from map(str.strip, text.split("\r"))
            elif text or not (is_cut or is_later_piece):
                yield text
            number += piece.endswith(b"\n")


def _is_tar(file: BinaryIO) -> bool:
    return file.peek(512)[257:262] == b"ustar"


def _raw_lines(file: BinaryIO, num_bytes: float) -> Iterator[bytes]:
    while num_bytes > 0 and (line := file.readline()):
        num_bytes -= len(line)
        yield line


def _parquet_rows(file: BinaryIO, column: str) -> Iterator[Row]:
    """Reads a column of a Parquet file."""
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(file)
        if column not in table.schema_arrow.names:
            raise OSError(f"no --text_field={column}: {table.schema_arrow}")
        batches = table.iter_batches(_PARQUET_ROWS, columns=[column])
        values = itertools.chain.from_iterable(x.column(0) for x in batches)
        for number, value in enumerate(values, 1):
            yield Row({column: value.as_py()}, f"row {number}")
    except pyarrow.ArrowException as error:
        raise OSError(str(error)) from error


def _last_border(line: bytes) -> int:
    """Returns where to cut: after white space, else between characters."""
    cut = line.rfind(b"\r") + 1
    cut = cut or max(line.rfind(b" "), line.rfind(b"\t")) + 1
    if cut:
        return cut
    for cut in range(len(line) - 1, len(line) - 4, -1):
        if line[cut] & 0xC0 != 0x80:  # not inside a character
            return cut
    return len(line)
