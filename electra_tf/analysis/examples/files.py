"""Files of examples: which they are, and their lines."""

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

import numpy as np

from electra_tf.data.formats import compression, contents
from electra_tf.data.formats.rows import BadRowError
from electra_tf.util import storage
from electra_tf.util.errors import UserError

Example = TypeVar("Example")


def find(paths: Sequence[str], endings: Collection[str] = ()) -> list[str]:
    """Lists files, of a directory those in it and below.

    Args:
      paths: of files and directories.
      endings: of the files of a directory that are listed, where any has one.

    Raises:
      UserError: if there is no such file, or no file in a directory.
    """
    found: list[str] = []
    for path in paths:
        path = path if storage.is_remote(path) else os.path.expanduser(path)
        if storage.is_directory(path):
            below = sorted(storage.files_below(path))
            fitting = [x for x in below if contents.ending(x) in endings]
            inside = fitting or below
        else:
            inside = [path] if storage.is_file(path) else []
        if not inside:
            raise UserError(
                "--dev and --test must name files, or directories of files. "
                f"Received: {path!r}, where there is none."
            )
        found += inside
    return found


@contextlib.contextmanager
def opened(path: str) -> Iterator[Iterator[bytes]]:
    """Opens a text file, a compressed one unpacked.

    Args:
      path: of the file.

    Yields:
      Its lines, in bytes.

    Raises:
      UserError: naming the file if it is no text or damaged.
    """
    try:
        with storage.open_binary(path) as file:
            yield contents.open_text(path, file)
    except contents.ForeignContentError as error:
        raise UserError(
            f"{path} must be text in UTF-8. Received: {error.what}. "
            f"{error.way_out}."
        ) from error
    except compression.ERRORS as error:
        raise UserError(
            f"{path} must be a file that can be read. Received: {error}."
        ) from error


@contextlib.contextmanager
def at(path: str, place: int | str) -> Iterator[None]:
    """Stands around the reading of one row.

    Args:
      path: of the file.
      place: of the row: its line, from 1.

    Raises:
      UserError: naming file and line, if a `BadRowError` is raised inside.
    """
    try:
        yield
    except BadRowError as error:
        raise UserError(f"{path}, line {place}: {error} Mend it.") from error


def choose(
    examples: Sequence[Example], max_examples: int, seed: int
) -> list[Example]:
    """Chooses examples at random, in the order of the file.

    Args:
      examples: of a file.
      max_examples: as many at most; 0 for all.
      seed: of the choice.
    """
    if not max_examples or len(examples) <= max_examples:
        return list(examples)
    random = np.random.default_rng(seed)
    chosen = random.choice(len(examples), max_examples, replace=False)
    return [examples[i] for i in sorted(chosen)]
