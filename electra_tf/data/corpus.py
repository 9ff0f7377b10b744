"""Corpora as streams of documents, read in constant memory.

Files hold text in UTF-8, JSON lines, Parquet or tar archives of texts and JSON
lines, compressed or not; other sources are the prepared data sets of
TensorFlow Datasets, and the demo corpus.
"""

import collections
import dataclasses
import io
import itertools
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TextIO

import tensorflow as tf

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import demo_corpus, prepared_datasets, tables
from electra_tf.data.tables import BadRowError, Row
from electra_tf.util import files
from electra_tf.util.errors import UserError

DEMO = "demo"
TFDS = "tfds:"
MAX_LINE_CHARACTERS = 2**16
MAX_DOCUMENT_CHARACTERS = 2**17
ORIGINAL_MAX_CHARACTERS = 2**24  # the original never cuts a document

_JSON_LINES = (*tables.JSON_LINES, ".json")  # C4 calls its JSON lines .json
_EXPANSION = {".gz": 3, ".xz": 4, ".bz2": 4, ".zst": 3}
_EXPANSION |= {f".t{ending[1:]}": n for ending, n in _EXPANSION.items()}

Counts = collections.Counter
"""What was read, cut or left out: files, text_bytes, documents, ..."""
TextLine = str | None
"""A line of a document: "" if it is blank, None where a document ends."""


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
            splits = prepared_datasets.open_data_set(self.path).info.splits
            return splits[self.split].num_bytes
        end = _size(self.path) if self.end is None else self.end
        ending = os.path.splitext(self.path)[1].lower()
        return (end - self.start) * _EXPANSION.get(ending, 1)


def _size(path: str) -> int:
    return tf.io.gfile.stat(path).length


def expand(
    patterns: Iterable[str],
    *,
    leave_out: Iterable[str] = (),
) -> list[TextSource]:
    """Finds the sources of a corpus, each once.

    Globs and directories do not include what is at, or below, a path of
    `leave_out`.
    """
    left_out = [_real_path(path.rstrip("/")) for path in leave_out]
    sources: dict[tuple[str, str], TextSource] = {}
    for pattern in patterns:
        if pattern.startswith(TFDS):
            name, _, split = pattern.removeprefix(TFDS).partition(":")
            directory = prepared_datasets.find_data_set(name)
            found = [TextSource(directory, split or "train")]
            if not prepared_datasets.has_split(directory, found[0].split):
                raise UserError(f"{directory} has no split {split!r}.")
        elif pattern == DEMO:
            found = [TextSource(DEMO)]
        else:
            found = map(TextSource, _find_files(pattern, left_out))
        for source in found:
            sources.setdefault((_real_path(source.path), source.split), source)
    if not sources:
        raise UserError("A corpus is needed: --corpus=demo or text files.")
    return list(sources.values())


def _find_files(pattern: str, left_out: list[str]) -> list[str]:
    """Lists the files of a path, glob or directory, without hidden ones."""
    if os.path.isfile(pattern):
        return [pattern]
    if tf.io.gfile.isdir(pattern):
        paths = [
            os.path.join(directory, name)
            for directory, _, names in tf.io.gfile.walk(pattern)
            for name in names
            if "/." not in f"{directory.removeprefix(pattern)}/{name}"
        ]
    else:
        paths = files.find(pattern)
        paths = [x for x in paths if files.is_remote(x) or os.path.isfile(x)]
    root = re.split(r"[^/]*[*?[]", pattern, maxsplit=1)[0]
    for place in left_out:
        if not _is_in(root or ".", place):
            paths = [path for path in paths if not _is_in(path, place)]
    if not paths:
        raise UserError(f"--corpus={pattern} matches no file.")
    return sorted(paths)


def _is_in(path: str, place: str) -> bool:
    """Returns whether a path is a real path, or below it."""
    return f"{_real_path(path)}/".startswith(f"{place}/")


def _real_path(path: str) -> str:
    return path if files.is_remote(path) else os.path.realpath(path)


def split_source(
    source: TextSource, num_bytes: int, config: CorpusConfig
) -> list[TextSource]:
    """Splits a source into ranges that can be read independently."""
    path = source.path
    if path == DEMO or source.split or _size(path) <= num_bytes:
        return [source]
    is_json = path.lower().endswith(_JSON_LINES)
    if not is_json:
        with tables.open_file(path) as file:
            is_text = config.blanks_separate_docs and not _is_tar(file)
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
    while piece := file.readline(2**16):
        is_whole = piece.endswith(b"\n")
        if is_whole and (is_json or not (is_inside or piece.strip())):
            break
        is_inside = not is_whole
    return file.tell()


def read_documents(
    sources: Iterable[TextSource], config: CorpusConfig, counts: Counts
) -> Iterator[list[str]]:
    """Reads the documents of sources, as stripped lines; counts them."""
    reader, max_characters = _Reader(config, counts), MAX_DOCUMENT_CHARACTERS
    if config.packing == "original":
        max_characters = ORIGINAL_MAX_CHARACTERS
    for source in sources:
        counts["files"] += source.start == 0
        document, size = [], 0
        for line in itertools.chain(reader.lines(source), [None]):
            is_cut = bool(line) and size + len(line) > max_characters
            is_end = line is None or not line and config.blanks_separate_docs
            if document and (is_cut or is_end):
                counts["documents"] += 1
                counts["cut_documents"] += is_cut
                counts["lines"] += len(document)
                yield document
                document, size = [], 0
            if line:
                document.append(line)
                size += len(line)


class _Reader:
    def __init__(self, config: CorpusConfig, counts: Counts) -> None:
        self._text_field = config.text_field
        self._counts = counts

    def lines(self, source: TextSource) -> Iterator[TextLine]:
        path = source.path
        try:
            if path == DEMO:
                for document in demo_corpus.documents():
                    yield from self._document("\n".join(document))
            elif source.split:
                field = self._text_field
                rows = prepared_datasets.read_rows(path, source.split, [field])
                yield from self._rows(rows)
            else:
                with tables.naming_file(path), tables.open_file(path) as file:
                    yield from self._file(path, _range(source, file))
        except BadRowError as error:
            place = error.place
            if source.start:
                with tables.open_file(path) as file:
                    place += file.read(source.start).count(b"\n")
            where = tables.describe_place(place)
            raise UserError(f"{path}, {where}: {error}") from error

    def _file(self, name: str, file: BinaryIO) -> Iterator[TextLine]:
        ending = tables.file_ending(name)
        if ending == ".parquet":
            yield from self._rows(tables.parquet_rows(file, [self._text_field]))
        elif ending in _JSON_LINES:
            yield from self._rows(tables.json_rows(file))
        elif _is_tar(file):
            yield from self._archive(file)
        elif b"\0" in file.peek(512)[:512]:  # as in UTF-16
            raise BadRowError("not text in UTF-8.", 1)
        else:
            text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape")
            yield from self._text_lines(text)

    def _rows(self, rows: Iterable[Row]) -> Iterator[TextLine]:
        for row in rows:
            yield from self._document(row.value(self._text_field, str))

    def _archive(self, file: BinaryIO) -> Iterator[TextLine]:
        """Yields the lines of the files of an archive, each one document."""
        with tarfile.open(fileobj=file, mode="r|") as archive:
            archive.fileobj.seekable = lambda: False  # TextIOWrapper asks
            for member in archive:
                archive.members = []  # else all of them stay in memory
                name = os.path.basename(member.name)
                if not member.isreg() or name.startswith("."):
                    continue
                content = archive.extractfile(member)
                lines = self._file(name, tables.decompress(name, content))
                try:
                    yield from (line for line in lines if line != "")
                except BadRowError as error:
                    place = f"{member.name}, line {error.place}"
                    raise BadRowError(str(error), place) from error
                yield None

    def _document(self, text: str) -> Iterator[TextLine]:
        """Yields the lines of one document; JSON may have lone surrogates."""
        text = text.encode(errors="ignore").decode()
        lines = self._text_lines(io.StringIO(text, newline=None))
        yield from filter(None, lines)
        yield None

    def _text_lines(self, file: TextIO) -> Iterator[str]:
        """Yields stripped lines, very long ones in several pieces."""
        number, rest, was_cut = 1, "", False
        while piece := rest + file.readline(MAX_LINE_CHARACTERS):
            is_whole = piece.endswith("\n")
            is_cut = not is_whole and len(piece) >= MAX_LINE_CHARACTERS
            rest = ""
            if is_cut:  # after white space if there is any
                end = 1 + max(piece.rfind(" "), piece.rfind("\t"))
                piece, rest = piece[: end or None], piece[end:] * bool(end)
                self._counts["cut_lines"] += 1
            try:
                self._counts["text_bytes"] += len(piece.encode())
            except UnicodeEncodeError as error:  # escaped bytes
                raise BadRowError("not text in UTF-8.", number) from error
            line = piece.strip()
            if line or not (is_cut or was_cut):
                yield line
            was_cut = is_cut
            number += is_whole


def _range(source: TextSource, file: BinaryIO) -> BinaryIO:
    if not source.start and source.end is None:
        return file
    file.seek(source.start)
    size = -1 if source.end is None else source.end - source.start
    return io.BufferedReader(io.BytesIO(file.read(size)))


def _is_tar(file: BinaryIO) -> bool:
    return file.peek(512)[257:262] == b"ustar"
