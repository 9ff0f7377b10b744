"""Rows of JSON for an analysis: .json of a list of objects, and .jsonl.

Each file may be compressed.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from electra_tf.analysis.examples import files as example_files
from electra_tf.data.formats import contents
from electra_tf.data.formats.rows import (
    BadRowError,
    Json,
    Record,
    json_records,
    of_json,
)
from electra_tf.util import files
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
    paths: Sequence[str], *, max_examples: int = 0, seed: int = 0
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
    for path in example_files.find(paths, _ENDINGS):
        found = [Row(path, record) for record in _records(path)]
        if not found:
            raise UserError(f"{path} must hold JSON objects. Received: none.")
        rows += example_files.choose(found, max_examples, seed)
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


def _records(path: str) -> Iterator[Record]:
    """Yields the objects of a file."""
    ending = contents.ending(path)
    if ending not in _ENDINGS:
        raise UserError(
            f"{path} must end in {', '.join(_ENDINGS)}, and what it is "
            f"compressed by. Received: {ending!r}."
        )
    with example_files.opened(path) as lines:
        if ending in contents.JSON_LINES:
            yield from json_records(lines)
        else:
            for number, value in enumerate(_list_of(path, lines), 1):
                yield of_json(f"entry {number}", value)


def _list_of(path: str, lines: Iterable[bytes]) -> list[Json]:
    """Returns the list in a .json file."""
    try:
        values = files.parse_json(b"".join(lines))
    except ValueError as error:
        raise UserError(
            f"{path} must be a JSON file. Received: {error}. A file with an "
            "object a line must end in .jsonl."
        ) from error
    if not isinstance(values, list):
        raise UserError(
            f"{path} must be a list of JSON objects. Received: {shown(values)}."
        )
    return values
