"""Finds, opens and samples files of examples."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

import numpy as np

from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.formats import compression, contents, rows
from electra_tf.data.formats.rows import BadRowError
from electra_tf.util import storage
from electra_tf.util.errors import UserError

Example = TypeVar("Example")


def find(
    config: AnalysisConfig, split: str, endings: Collection[str] = ()
) -> list[str]:
    """Lists the files of a split, each once; searches directories recursively.

    Args:
      config: of the analysis.
      split: "dev" or "test".
      endings: file extensions. If some files of a directory have one of these,
        only those are listed.

    Raises:
      UserError: if the split names no path, a file does not exist, or a
        directory has no files.
    """
    found: list[str] = []
    for path in getattr(config, split):
        path = path if storage.is_remote(path) else os.path.expanduser(path)
        if storage.is_directory(path):
            below = sorted(storage.files_below(path))
            fitting = [x for x in below if contents.ending(x) in endings]
            inside = fitting or below
        else:
            inside = [path] if storage.is_file(path) else []
        if not inside:
            raise UserError(
                f"--{split} must name files, or directories of files. "
                f"Received: {path!r}, which has none."
            )
        found += inside
    found = list({storage.real_path(path): path for path in found}.values())
    if not found:
        raise UserError(
            f"`{split}` must name files for --what={config.what}. Received: "
            f"nothing. Set --{split}."
        )
    return found


def read(
    config: AnalysisConfig,
    paths: Iterable[str],
    read_file: Callable[[str], Iterable[Example]],
) -> list[Example]:
    """Reads the examples of files, in order.

    Args:
      config: its `max_examples` (of each file) and `seed` choose a sample.
      paths: of the files.
      read_file: path -> examples.

    Raises:
      UserError: if a file holds no example.
    """
    found: list[Example] = []
    for path in paths:
        examples = list(read_file(path))
        if not examples:
            raise UserError(
                f"{path} must hold examples. Received: none. Leave it out."
            )
        if 0 < config.max_examples < len(examples):
            random = np.random.default_rng(config.seed)
            chosen = random.choice(
                len(examples), config.max_examples, replace=False
            )
            examples = [examples[i] for i in sorted(chosen)]
        found += examples
    return found


@contextlib.contextmanager
def opened(path: str) -> Iterator[Iterator[bytes]]:
    """Opens a text file, and decompresses it if needed.

    Args:
      path: of the file.

    Yields:
      Its lines, as bytes.

    Raises:
      UserError: naming the file, if it is not text or is damaged.
    """
    try:
        with storage.open_binary(path) as file:
            yield contents.open_text(path, file)
    except contents.UnsupportedContentError as error:
        raise UserError(
            f"{path} must be text in UTF-8. Received: {error.what}. "
            f"{error.way_out}."
        ) from error
    except compression.ERRORS as error:
        raise UserError(
            f"{path} must be a file that can be read. Received: {error}."
        ) from error


@contextlib.contextmanager
def row_errors(path: str, place: int | str) -> Iterator[None]:
    """Adds file and place to the errors of reading one row.

    Args:
      path: of the file.
      place: of the row: its line, from 1, or another description.

    Raises:
      UserError: naming file and place, if a `BadRowError` is raised inside.
    """
    try:
        yield
    except BadRowError as error:
        raise UserError(
            f"{path}, {rows.describe_place(place)}: {error} Fix it, or leave "
            "it out."
        ) from error
