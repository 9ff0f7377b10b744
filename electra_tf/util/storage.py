"""Files on local disks and in remote stores ("gs://..."), by one interface.

Paths with "://" go to TensorFlow's file systems, all others to the operating
system; TensorFlow is imported only for the former. A request to a store that
fails temporarily is retried after 1, 2, 4, 8 and 16 seconds. All errors are
`OSError`s; those of stores are `StoreError`s, except for missing files.

After a write to a store the file is read back and its size and checksum are
compared.
"""

import contextlib
import fnmatch
import functools
import glob as local_glob
import io
import os
import pathlib
import posixpath
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NoReturn

from electra_tf.util.store_requests import TornWriteError, request

_BUFFER_BYTES = 2**20  # every read of a store is a request
StrPath = str | os.PathLike[str]


def _gfile() -> Any:  # noqa: ANN401 (a module)
    import tensorflow as tf

    return tf.io.gfile


class StorePath(os.PathLike):
    """A path in a store, with the few properties of `pathlib` that are used."""

    def __init__(self, path: StrPath) -> None:
        self._text = os.fspath(path).rstrip("/")

    def __fspath__(self) -> str:
        return self._text

    __str__ = __fspath__

    def __repr__(self) -> str:
        return f"StorePath({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __truediv__(self, name: StrPath) -> "StorePath":
        return StorePath(posixpath.join(self._text, name))

    @property
    def name(self) -> str:
        """The last part."""
        return posixpath.basename(self._text)

    @property
    def parent(self) -> "StorePath":
        """The directory that holds it."""
        return StorePath(posixpath.dirname(self._text))


Path = pathlib.Path | StorePath


def as_path(path: StrPath) -> Path:
    """Returns a path to which names can be added with `/`."""
    return StorePath(path) if is_remote(path) else pathlib.Path(path)


def is_remote(path: StrPath) -> bool:
    """Returns whether a path is one of a store."""
    return "://" in os.fspath(path)


def normalize(path: str) -> str:
    """Returns the usual form of a path."""
    return path if is_remote(path) else os.path.normpath(path)


@request
def exists(path: StrPath) -> bool:
    """Returns whether there is a file or a directory."""
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


@request
def is_directory(path: StrPath) -> bool:
    """Returns whether there is a directory."""
    return _gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def is_file(path: str) -> bool:
    """Returns whether there is a file that can be read more than once."""
    if is_remote(path):
        return exists(path) and not is_directory(path)
    return os.path.isfile(path)


def size(path: str) -> int:
    """Returns the size of a file in bytes."""
    return version(path)[0]


def version(path: str) -> list[int]:
    """Returns a file's size in bytes and modification time in nanoseconds."""
    return identity(path)[:2]


@request
def identity(path: str) -> list[int]:
    """Returns the `version` of a file and, on this machine, its ctime."""
    if is_remote(path):
        stat = _gfile().stat(path)
        return [stat.length, stat.mtime_nsec]
    stat = os.stat(path)
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def open_binary(path: str) -> BinaryIO:
    """Opens a file to read bytes."""
    if is_remote(path):
        return io.BufferedReader(_RemoteFile(path), _BUFFER_BYTES)
    return open(path, "rb")


def read_bytes(path: StrPath) -> bytes:
    """Returns the content of a file."""
    with open_binary(os.fspath(path)) as file:
        return file.read()


def write_bytes(path: str, content: bytes) -> None:
    """Writes a file of a store."""
    _write(path, io.BytesIO(content))


def upload(source: str, path: str) -> None:
    """Copies a file of this machine to a store."""
    with open(source, "rb") as file:
        _write(path, file)


def download(path: str, to: str) -> None:
    """Copies a file of a store to this machine."""
    with open_binary(path) as source, open(to, "wb") as file:
        shutil.copyfileobj(source, file, _BUFFER_BYTES)


@request
def _write(path: str, source: BinaryIO) -> None:
    source.seek(0)  # it may be the second try
    expected = _checksum(source)
    source.seek(0)
    if path.startswith("ram://") and exists(path):
        remove(path)  # TensorFlow would append to it there
    with _gfile().GFile(path, "wb") as file:
        file.write(b"")  # GFile opens on write: makes empty files too
        shutil.copyfileobj(source, file, _BUFFER_BYTES)
    with open_binary(path) as file:
        found = _checksum(file)
    if found != expected:
        raise TornWriteError(
            f"{found[0]:,} of {expected[0]:,} bytes were read back, or with "
            "another checksum"
        )


def _checksum(file: BinaryIO) -> tuple[int, int]:
    """Returns the size and CRC-32 of what is left to read of a file."""
    num_bytes, checksum = 0, 0
    for piece in iter(lambda: file.read(_BUFFER_BYTES), b""):
        num_bytes += len(piece)
        checksum = zlib.crc32(piece, checksum)
    return num_bytes, checksum


@request
def glob(pattern: str) -> list[str]:
    """Returns the paths that match a pattern; `**` is any depth, locally."""
    if is_remote(pattern):
        return _gfile().glob(pattern)
    directory, name = os.path.split(pattern)
    in_directory = os.path.join(local_glob.escape(directory), name)
    for tried in (pattern, in_directory, local_glob.escape(pattern)):
        if found := local_glob.glob(tried, recursive=True):
            return found
    return []


def escape(path: str) -> str:
    """Returns a glob pattern that matches exactly a local path."""
    return local_glob.escape(path).replace(",", "[,]")


def split_patterns(patterns: str) -> list[str]:
    """Splits comma-separated patterns; a comma that `escape` wrote is kept."""
    return [x.strip() for x in re.split(r"(?<!\[),(?!\])", patterns)]


def files_below(directory: str) -> Iterator[str]:
    """Yields the files in and below a directory, without hidden ones."""
    local_walk = functools.partial(os.walk, onerror=_raise)
    walk = _gfile().walk if is_remote(directory) else local_walk
    waiting, seen = [directory], set()
    for top in waiting:  # which grows
        for parent, directories, names in walk(top):
            directories[:] = sorted(_visible(directories))
            place = real_path(parent)
            if place in seen:
                directories.clear()
                continue
            seen.add(place)
            paths = (os.path.join(parent, name) for name in directories)
            waiting += filter(os.path.islink, paths)
            yield from (os.path.join(parent, n) for n in _visible(names))


def _raise(error: OSError) -> NoReturn:
    raise error


def _visible(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if not name.startswith("."))


def real_path(path: str) -> str:
    """Returns the canonical path: absolute, with all links resolved."""
    if is_remote(path):
        return path
    if os.path.islink(path):
        return os.path.realpath(path)
    parent, name = os.path.split(os.path.abspath(path))
    return os.path.join(_real_directory(parent), name)


@functools.lru_cache(1024)
def _real_directory(path: str) -> str:
    return os.path.realpath(path)


def find(directory: StrPath, patterns: Iterable[str]) -> list[str]:
    """Returns the paths in a directory that match, in the order of patterns."""
    try:
        names = _names_in(os.fspath(directory) or ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
    names = [name.rstrip("/") for name in names]
    return [
        os.path.join(directory, name)
        for pattern in patterns
        for name in fnmatch.filter(names, pattern)
    ]


@request
def _names_in(directory: str) -> list[str]:
    if not is_remote(directory):
        return os.listdir(directory)
    # For an unreachable store, TensorFlow's listdir says that it is missing.
    gfile = _gfile()
    return gfile.listdir(directory) if gfile.exists(directory) else []


@request
def make_directories(path: StrPath) -> None:
    """Makes a directory and its parents, where they do not exist."""
    if is_remote(path):
        _gfile().makedirs(path)
    else:
        os.makedirs(path, exist_ok=True)


@request(missing_is_done=True)
def move(path: str, to: str) -> None:
    """Renames a file, replacing any file that has the new name."""
    if is_remote(path):
        _gfile().rename(path, to, overwrite=True)
    else:
        os.replace(path, to)


@request(missing_is_done=True)
def remove(path: StrPath) -> None:
    """Removes a file, or a directory with its contents."""
    if is_remote(path):
        gfile = _gfile()
        (gfile.rmtree if gfile.isdir(path) else gfile.remove)(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.remove(path)


class _RemoteFile(io.RawIOBase):
    """A file of a store as a raw Python file object."""

    def __init__(self, path: str) -> None:
        self._path, self._position, self._file = path, 0, None
        self.seek(0)  # opens it, so that errors show here

    def __fspath__(self) -> str:  # for errors
        return self._path

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        """Yields the file; after an error, the next call reopens it."""
        file, self._file = self._file, None
        if file is None:
            file = _gfile().GFile(self._path, "rb")
            file.seek(self._position)
        yield file
        self._file, self._position = file, file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    @request
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with self._opened() as file:
            file.seek(offset, whence)
        return self._position

    def tell(self) -> int:
        return self._position

    @request
    def readinto(self, buffer: memoryview) -> int:
        with self._opened() as file:
            content = file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()
