"""Files that are written completely or not at all, and JSON.

Paths with "://" belong to TensorFlow's file systems.
"""

import contextlib
import glob
import json
import os
import re
from collections.abc import Iterator
from typing import IO, Any

import filelock
from etils import epath

from electra_tf.util.errors import DirectoryInUseError, UserError

StrPath = str | os.PathLike[str]

LOCK = ".lock"
"""Name of the lock of a directory that one command fills."""


def is_remote(path: StrPath) -> bool:
    """Returns whether a path is not one of this machine's disks."""
    return "://" in os.fspath(path)


@contextlib.contextmanager
def atomic_open(path: StrPath, mode: str) -> Iterator[IO]:
    """Opens a file of this machine that appears once it is complete."""
    directory, name = os.path.split(path)
    unfinished = os.path.join(directory, f"tmp-{name}-{os.getpid()}")
    encoding = None if "b" in mode else "utf-8"
    try:
        with open(unfinished, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    sync(directory or ".")


def atomic_write_bytes(path: StrPath, content: bytes) -> None:
    """Writes a file so that a crash leaves the old one or the new one."""
    if is_remote(path):
        path = epath.Path(path)
        unfinished = path.parent / f"tmp-{path.name}"
        unfinished.write_bytes(content)
        unfinished.replace(path)
        return
    with atomic_open(path, "wb") as file:
        file.write(content)


def atomic_write_text(path: StrPath, text: str) -> None:
    """Writes a file so that a crash leaves the old one or the new one."""
    atomic_write_bytes(path, text.encode())


def sync(path: StrPath) -> None:
    """Flushes a file, or the entries of a directory, to the disk (fsync)."""
    if is_remote(path):
        return  # stores make files durable when they are closed
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def split_patterns(patterns: str) -> list[str]:
    """Splits comma-separated patterns; a comma of `escape` is kept."""
    return [x.strip() for x in re.split(r"(?<!\[),(?!\])", patterns)]


def escape(path: str) -> str:
    """Returns a pattern that matches exactly a path."""
    return path if is_remote(path) else glob.escape(path).replace(",", "[,]")


def find(patterns: str) -> list[str]:
    """Returns the files that comma-separated globs match, sorted."""
    paths = set()
    for pattern in split_patterns(patterns):
        if is_remote(pattern):
            import tensorflow as tf

            paths.update(tf.io.gfile.glob(pattern))
        else:
            local = glob.glob(pattern, recursive=True)
            paths.update(map(os.path.normpath, local))
    return sorted(paths)


def write_json(path: StrPath, value: object) -> None:
    """Writes a value as indented JSON, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    atomic_write_text(path, text + "\n")


def read_json(path: StrPath) -> Any:  # noqa: ANN401
    try:
        return json.loads(epath.Path(path).read_bytes())
    except ValueError as error:
        raise UserError(f"{os.fspath(path)}: {error}") from error


@contextlib.contextmanager
def lock_directory(directory: StrPath, name: str = LOCK) -> Iterator[None]:
    """Admits one process to a directory of this machine's at a time."""
    if is_remote(directory):
        yield
        return
    path = os.path.join(directory, name)
    try:
        with filelock.FileLock(path, timeout=0):
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # it would lock nothing
                    os.unlink(path)
    except filelock.Timeout as error:
        raise DirectoryInUseError(
            f"Another process writes to {os.fspath(directory)}."
        ) from error
