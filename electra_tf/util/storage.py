"""Local files, and those of stores as "gs://...", by the same functions.

Paths with "://" go to TensorFlow's file systems, which is imported only for
them; all others to the operating system. All errors are `OSError`s, those of
stores `StoreError`s but for files that are not there.
"""

import contextlib
import fnmatch
import functools
import glob as local_glob
import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from electra_tf.util.errors import UserError

_BUFFER_BYTES = 2**20  # every read of a store is a request


class StoreError(UserError, OSError):
    """A store cannot be used."""


def _gfile() -> Any:  # noqa: ANN401 (a module)
    import tensorflow as tf

    return tf.io.gfile


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    """Raises TensorFlow's errors as `OSError`s."""
    try:
        yield
    except Exception as error:  # known by their names, so without TensorFlow
        names = {base.__name__ for base in type(error).__mro__}
        if "OpError" not in names:
            raise
        if "NotFoundError" in names:
            raise FileNotFoundError(error.message) from error
        raise StoreError(
            f"A store must be one that TensorFlow reaches. Received: "
            f"{error.message}"
        ) from error


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is one of a store."""
    return "://" in os.fspath(path)


def normalize(path: str) -> str:
    """Returns the usual form of a path."""
    return path if is_remote(path) else os.path.normpath(path)


@_os_errors()
def exists(path: str) -> bool:
    """Returns whether there is a file or a directory."""
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


@_os_errors()
def is_directory(path: str) -> bool:
    """Returns whether there is a directory."""
    return _gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def is_file(path: str) -> bool:
    """Returns whether there is a file that can be read more than once."""
    if is_remote(path):
        return exists(path) and not is_directory(path)
    return os.path.isfile(path)


def size(path: str) -> int:
    """Returns the bytes of a file."""
    return version(path)[0]


@_os_errors()
def version(path: str) -> list[int]:
    """Returns size in bytes and time of change of a file."""
    if is_remote(path):
        stat = _gfile().stat(path)
        return [stat.length, stat.mtime_nsec]
    stat = os.stat(path)
    return [stat.st_size, stat.st_mtime_ns]


@_os_errors()
def identity(path: str) -> list[int]:
    """Returns the `version` of a file and, on this machine, its ctime.

    A file that is replaced by another one of the same version, as `cp -p` and
    `rsync` can make, still has another ctime, which nobody can set.
    """
    if is_remote(path):
        return version(path)
    stat = os.stat(path)
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def open_binary(path: str) -> BinaryIO:
    """Opens a file to read bytes."""
    if is_remote(path):
        return io.BufferedReader(_RemoteFile(path), _BUFFER_BYTES)
    return open(path, "rb")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Returns the content of a file."""
    with open_binary(os.fspath(path)) as file:
        return file.read()


@_os_errors()
def write_bytes(path: str, content: bytes) -> None:
    """Writes a file of a store, which shows it when it is complete."""
    with _gfile().GFile(path, "wb") as file:
        file.write(content)


@_os_errors()
def glob(pattern: str) -> list[str]:
    """Returns the paths that match a pattern; `**` is any depth, locally.

    A local pattern that matches nothing is then taken literally, first its
    directory and then the whole of it: names may hold `[`, `*` and `?`.
    """
    if is_remote(pattern):
        return _gfile().glob(pattern)
    directory, name = os.path.split(pattern)
    in_directory = os.path.join(local_glob.escape(directory), name)
    for tried in (pattern, in_directory, local_glob.escape(pattern)):
        if found := local_glob.glob(tried, recursive=True):
            return found
    return []


def escape(path: str) -> str:
    """Returns a pattern of a path of this machine, whatever its name."""
    return local_glob.escape(path).replace(",", "[,]")


def split_patterns(patterns: str) -> list[str]:
    """Splits patterns at the commas between them."""
    return [x.strip() for x in re.split(r"(?<!\[),(?!\])", patterns)]


def files_below(directory: str) -> Iterator[str]:
    """Yields the files in and below a directory, but for hidden ones.

    Links to directories are followed; a directory that several of them lead to
    comes once, and cycles end.
    """
    walk = _gfile().walk if is_remote(directory) else os.walk
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


def _visible(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if not name.startswith("."))


def real_path(path: str) -> str:
    """Returns the one name that all spellings and links of a path share."""
    if is_remote(path):
        return path
    if os.path.islink(path):
        return os.path.realpath(path)
    parent, name = os.path.split(os.path.abspath(path))
    return os.path.join(_real_directory(parent), name)


@functools.lru_cache(1024)
def _real_directory(path: str) -> str:
    return os.path.realpath(path)


def find(directory: str, patterns: Iterable[str]) -> list[str]:
    """Returns the paths in a directory whose names match, by pattern."""
    try:
        with _os_errors():
            is_here = not is_remote(directory)
            names = (os if is_here else _gfile()).listdir(directory or ".")
    except FileNotFoundError:
        return []
    names = [name.rstrip("/") for name in names]
    return [
        os.path.join(directory, name)
        for pattern in patterns
        for name in fnmatch.filter(names, pattern)
    ]


@_os_errors()
def make_directories(path: str) -> None:
    """Makes a directory and those above it, where they are not there."""
    if is_remote(path):
        _gfile().makedirs(path)
    else:
        os.makedirs(path, exist_ok=True)


@_os_errors()
def move(path: str, to: str) -> None:
    """Renames a file, replacing one that has the new name."""
    if is_remote(path):
        _gfile().rename(path, to, overwrite=True)
    else:
        os.replace(path, to)


@_os_errors()
def remove(path: str) -> None:
    """Removes a file, or a directory with all in it."""
    if is_remote(path):
        gfile = _gfile()
        (gfile.rmtree if gfile.isdir(path) else gfile.remove)(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.remove(path)


class _RemoteFile(io.RawIOBase):
    """A file of a store as Python has them."""

    @_os_errors()
    def __init__(self, path: str) -> None:
        self._file = _gfile().GFile(path, "rb")
        self._file.seek(0)  # opens it, so that errors show here

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    @_os_errors()
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    @_os_errors()
    def readinto(self, buffer: memoryview) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()
