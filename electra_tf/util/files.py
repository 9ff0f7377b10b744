"""Atomic writes, and JSON files."""

import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from electra_tf.util import storage
from electra_tf.util.errors import UserError, add_path_to_errors, shorten_repr

# Errors of lookups and conversions in a file of unexpected structure.
_STRUCTURE_ERRORS = (
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def atomic_write_text(path: storage.StrPath, text: str) -> None:
    """Writes a file so that a crash leaves the old one or the new one."""
    atomic_write_bytes(path, text.encode())


def atomic_write_bytes(path: storage.StrPath, content: bytes) -> None:
    """Writes a file so that a crash leaves the old one or the new one."""
    if storage.is_remote(path):
        unfinished = unfinished_path(path)
        storage.write_bytes(unfinished, content)
        storage.move(unfinished, os.fspath(path))
        return
    with atomic_open(path, "wb") as file:
        file.write(content)


def unfinished_path(path: storage.StrPath) -> str:
    """Returns the temporary path to which a file of a store is written."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f"tmp-{name}")


@contextlib.contextmanager
def atomic_open(path: storage.StrPath, mode: str) -> Iterator[IO]:
    """Opens a local file that appears under its name only once complete."""
    path = pathlib.Path(path)
    unfinished = path.with_name(f"tmp-{path.name}-{os.getpid()}")
    encoding = None if "b" in mode else "utf-8"
    try:
        with (
            add_path_to_errors(path),
            unfinished.open(mode, encoding=encoding) as file,
        ):
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_json(path: storage.StrPath, value: object) -> None:
    """Writes a value as indented JSON, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    atomic_write_text(path, text + "\n")


def read_json(path: storage.StrPath) -> Any:  # noqa: ANN401
    """Reads a JSON file."""
    try:
        return parse_json(storage.read_bytes(path))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{os.fspath(path)} must be a JSON file. Received: {error}"
        ) from error


def read_object(path: storage.StrPath) -> dict[str, Any]:
    """Reads a JSON file of an object, name -> value."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(
            f"{os.fspath(path)} must hold a JSON object, name -> value. "
            f"Received: {shorten_repr(value)}"
        )
    return value


@contextlib.contextmanager
def naming_malformed_file(path: storage.StrPath) -> Iterator[None]:
    """Turns errors about the structure of a JSON file into one that names
    it."""
    try:
        yield
    except UserError:
        raise
    except _STRUCTURE_ERRORS as error:
        raise UserError(
            f"{os.fspath(path)} must have the structure that electra_tf "
            f"writes. Received: {error!r}. Restore the file, or recreate what "
            "it belongs to."
        ) from error


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401
    """Reads JSON."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("values that nest too deeply") from error


def ensure_writable(directory: storage.StrPath) -> None:
    """Makes a directory and checks that a file can be written in it."""
    try:
        storage.make_directories(os.fspath(directory))
        if storage.is_remote(directory):
            proof = os.path.join(directory, f"tmp-{os.getpid()}")
            storage.write_bytes(proof, b"proof")  # the name alone is no proof
            storage.remove(proof)
            return
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"proof")
            file.flush()
    except OSError as error:
        raise UserError(
            f"{os.fspath(directory)} must be a directory that can be written "
            f"to. Received: {error}"
        ) from error


@contextlib.contextmanager
def directory_removed_if_empty(directory: storage.StrPath) -> Iterator[None]:
    """Makes a directory, and removes it after the block if it is empty."""
    ensure_writable(directory)
    try:
        yield
    finally:
        if not storage.is_remote(directory):
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(directory)


def sync(path: storage.StrPath) -> None:
    """Flushes a file, or the entries of a directory, to the disk (fsync)."""
    if storage.is_remote(path):
        return  # stores make files durable when they are closed
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
