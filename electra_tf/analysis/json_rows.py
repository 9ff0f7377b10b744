"""Rows of JSON for an analysis: .json of a list of objects, and .jsonl.

Each file may be compressed.
"""

import contextlib
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from electra_tf.data.formats import compression, contents
from electra_tf.data.formats.rows import (
    BadRowError,
    Record,
    json_records,
    of_json,
)
from electra_tf.util import files, storage
from electra_tf.util.errors import UserError, shown

_LIST = ".json"
_ENDINGS = (_LIST, *contents.JSON_LINES)


class Row(NamedTuple):
    """An object of a file.

    Attributes:
      path: of the file.
      record: its values.
    """

    path: str
    record: Record

    def __str__(self) -> str:
        place = self.record.place
        where = f"line {place}" if isinstance(place, int) else place
        return f"{self.path}, {where}"


def read(
    paths: Iterable[str], *, max_examples: int = 0, seed: int = 0
) -> list[Row]:
    """Reads the objects of files, in order.

    Args:
      paths: of files, or of directories that hold them.
      max_examples: of each file, chosen by the seed; 0 for all.
      seed: of the choice.

    Raises:
      UserError: naming the file that cannot be read or holds no object.
    """
    rows: list[Row] = []
    for path in (file for given in paths for file in _files(given)):
        found = [Row(path, record) for record in _records(path)]
        if not found:
            raise UserError(f"{path} must hold JSON objects. Received: none.")
        rows += _chosen(found, max_examples, seed)
    return rows


@contextlib.contextmanager
def place_of(row: Row) -> Iterator[None]:
    """Stands around the use of a row.

    Raises:
      UserError: naming file and place, if a `BadRowError` is raised inside.
    """
    try:
        yield
    except BadRowError as error:
        raise UserError(f"{row}: {error} Mend it, or leave it out.") from error


def _files(given: str) -> list[str]:
    """Returns a file, or those in a directory that may be read."""
    if storage.is_file(given):
        return [given]
    found = []
    if storage.is_directory(given):
        found = sorted(storage.files_below(given))
        found = [x for x in found if contents.ending(x) in _ENDINGS]
    if not found:
        raise UserError(
            "A file, or a directory with files, must be given that end in "
            f"{', '.join(_ENDINGS)}. Received: {given}. Check the path."
        )
    return found


def _records(path: str) -> Iterator[Record]:
    content = _content(path)
    if contents.ending(path) in contents.JSON_LINES:
        return json_records(io.BytesIO(content))
    try:
        values = files.parse_json(content)
    except ValueError as error:
        raise UserError(
            f"{path} must be a JSON file. Received: {error}. A file with an "
            "object a line must end in .jsonl."
        ) from error
    if not isinstance(values, list):
        raise UserError(
            f"{path} must be a list of JSON objects. Received: {shown(values)}."
        )
    entries = enumerate(values, 1)
    return (of_json(f"entry {n}", value) for n, value in entries)


def _content(path: str) -> bytes:
    if contents.ending(path) not in _ENDINGS:
        raise UserError(
            f"{path} must end in {', '.join(_ENDINGS)}, and what it is "
            f"compressed by. Received: {contents.ending(path)!r}."
        )
    try:
        with storage.open_binary(path) as file:
            return contents.open_text(path, file).read()
    except contents.ForeignContentError as error:
        raise UserError(
            f"{path} must be text in UTF-8. Received: {error.what}. "
            f"{error.way_out}."
        ) from error
    except compression.ERRORS as error:
        raise UserError(
            f"{path} must be a file that can be read. Received: {error}"
        ) from error


def _chosen(rows: list[Row], max_examples: int, seed: int) -> list[Row]:
    """Returns rows chosen at random, in their order."""
    if not 0 < max_examples < len(rows):
        return rows
    random = np.random.default_rng(seed)
    numbers = random.choice(len(rows), max_examples, replace=False)
    return [rows[number] for number in sorted(numbers)]
