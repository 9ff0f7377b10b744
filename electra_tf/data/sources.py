"""The sources of a corpus: files, ranges of files, data sets, the demo."""

import dataclasses
import itertools
import os
from collections.abc import Iterable

from electra_tf.data.formats import compression, prepared, text_files
from electra_tf.data.formats.contents import ContentKind
from electra_tf.util import console, storage
from electra_tf.util.errors import UserError

DEMO = "demo"
TFDS = "tfds:"

_WILDCARDS = frozenset("*?[")
_SPACE = b" \t\r\v\f\n"
_SCAN_BYTES = 2**16


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
        end = storage.size(self.path) if self.end is None else self.end
        return (end - self.start) * compression.expansion(self.path)


def expand(
    patterns: Iterable[str],
    *,
    tfds_data_dir: str = "",
    leave_out: Iterable[str] = (),
) -> list[TextSource]:
    """Finds the sources of a corpus."""
    left_out = [storage.real_path(path.rstrip("/")) for path in leave_out]
    found = [
        source
        for pattern in patterns
        for source in _matches(pattern, tfds_data_dir, left_out)
    ]
    sources: dict[TextSource, TextSource] = {}
    for source in found:
        sources.setdefault(_identity(source), source)
    if repeated := [s for s in found if s is not sources[_identity(s)]]:
        console.warn(
            f"--corpus names {len(repeated):,} file(s) or data set(s) more "
            f"than once; each is read once, such as {repeated[0].path}."
        )
    if not sources:
        raise UserError(
            "A corpus is needed. Received: no --corpus. Name text files, globs "
            'or directories, as in --corpus="books/*.txt.gz", or --corpus=demo.'
        )
    return list(sources.values())


def split_source(
    source: TextSource, num_bytes: int, *, blanks_separate_docs: bool
) -> list[TextSource]:
    """Splits a source into ranges that can be read independently."""
    if not _is_file(source):
        return [source]
    size = storage.size(source.path)
    if size <= num_bytes:
        return [source]
    kind = text_files.kind_of(source.path)
    is_json = kind is ContentKind.JSON_LINES
    if not is_json and not (kind is ContentKind.TEXT and blanks_separate_docs):
        return [source]
    starts = [0]
    for cut in range(num_bytes, size, num_bytes):
        if starts[-1] < cut:
            starts.append(_next_document(source.path, cut, is_json))
    starts = [start for start in starts if start < size]
    return [
        TextSource(source.path, start=start, end=end)
        for start, end in itertools.zip_longest(starts, starts[1:])
    ]


def _identity(source: TextSource) -> TextSource:
    """Returns the source under its canonical name, equal for all its names."""
    if not _is_file(source):
        return source
    return TextSource(storage.real_path(source.path))


def _is_file(source: TextSource) -> bool:
    return not (source.path == DEMO or source.split or source.start)


def _next_document(path: str, position: int, is_json: bool) -> int:
    """Returns the start of the first document from a byte on, or the end."""
    with storage.open_binary(path) as file:
        file.seek(position - 1)
        is_inside = True  # of a line whose beginning is unknown
        while piece := file.readline(_SCAN_BYTES):
            is_whole = piece.endswith(b"\n")
            if is_whole and (is_json or not (is_inside or piece.strip(_SPACE))):
                return file.tell()
            is_inside = not is_whole
        return file.tell()


def _check_regular_file(path: str) -> str:
    """Returns a path unless it is a pipe, a socket or a device."""
    is_here = not storage.is_remote(path) and storage.exists(path)
    if is_here and not storage.is_file(path):
        raise UserError(
            "A corpus must consist of regular files. Received: "
            f"{path}, which is a pipe, a socket or a device. Remove it, or "
            "name the other files."
        )
    return path


def _is_in(path: str, places: Iterable[str]) -> bool:
    """Returns whether a path is one of the real paths, or below one."""
    path = storage.real_path(path)
    return any(f"{path}/".startswith(f"{place}/") for place in places)


def _root(pattern: str) -> str:
    """Returns the directory that all matches of a glob lie in."""
    while _WILDCARDS & {*pattern}:
        pattern = os.path.dirname(pattern)
    return pattern or "."


def _matches(
    pattern: str, tfds_data_dir: str, left_out: list[str]
) -> list[TextSource]:
    if pattern == DEMO or storage.is_file(pattern):
        return [TextSource(pattern)]
    if pattern.startswith(TFDS):
        name, _, split = pattern.removeprefix(TFDS).partition(":")
        split, flag = split or "train", f"corpus={pattern!r}"
        directory = prepared.find(name, tfds_data_dir, flag)
        prepared.check_split(directory, split, flag)
        return [TextSource(directory, split)]
    if storage.is_directory(pattern):
        root, paths = pattern, storage.files_below(pattern)
    else:
        root = _root(pattern)
        paths = filter(storage.is_file, storage.glob(pattern))
    left_out = [place for place in left_out if not _is_in(root, [place])]
    if found := sorted(path for path in paths if not _is_in(path, left_out)):
        return [TextSource(_check_regular_file(path)) for path in found]
    raise UserError(
        "A corpus must name files, globs, directories that hold files, "
        f'"{TFDS}NAME" or "demo". Received: '
        f"corpus={pattern!r}, which matches no file."
    )
