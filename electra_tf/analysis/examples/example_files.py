"""Finds and samples files of examples."""

import os
import pathlib
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import numpy as np

from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data import tables
from electra_tf.data.tables import BadRows
from electra_tf.util.errors import UserError

BAD_ROWS = BadRows()
"""Refuses rows that cannot be used."""

Example = TypeVar("Example")


def files_below(directory: str) -> list[str]:
    """Returns the files in and below a directory, without hidden ones."""
    return sorted(
        str(path)
        for path in pathlib.Path(directory).rglob("[!.]*")
        if path.is_file()
    )


def find(
    config: AnalysisConfig, split: str, endings: Collection[str] = ()
) -> list[str]:
    """Lists the files of a split, each once; searches directories
    recursively."""
    found: list[str] = []
    for path in getattr(config, split):
        if os.path.isdir(path):
            below = files_below(path)
            fitting = [x for x in below if tables.file_ending(x) in endings]
            inside = fitting or below
        else:
            inside = [path] if os.path.isfile(path) else []
        if not inside:
            raise UserError(
                f"--{split} must name files, or directories of files. "
                f"Received: {path!r}, which has none."
            )
        found += inside
    found = list({os.path.realpath(path): path for path in found}.values())
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
    """Reads the examples of files, in order."""
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
