"""Reads JSON rows for an analysis: .json with a list of objects, and .jsonl.

Each file may be compressed.
"""

from collections.abc import Callable, Iterable, Iterator

from electra_tf.analysis.examples import example_files
from electra_tf.analysis.examples.example_files import Example
from electra_tf.config.analysis import AnalysisConfig
from electra_tf.data.formats import contents
from electra_tf.data.formats.rows import (
    Json,
    Record,
    check_unicode,
    json_records,
    of_json,
)
from electra_tf.util import files
from electra_tf.util.errors import UserError, shorten_repr

_LIST = ".json"
ENDINGS = (_LIST, *contents.JSON_LINES)
"""Extensions of the files that are read."""


def read(
    config: AnalysisConfig, split: str, parse: Callable[[Record, str], Example]
) -> list[Example]:
    """Reads the objects of the files of a split, in order."""

    def read_file(path: str) -> Iterator[Example]:
        for record in _records(path):
            with example_files.BAD_ROWS.at(path, record.place):
                example = parse(record, path)
            yield example

    paths = example_files.find(config, split, ENDINGS)
    return example_files.read(config, paths, read_file)


def _records(path: str) -> Iterator[Record]:
    """Yields the objects of a file."""
    ending = contents.ending(path)
    if ending not in ENDINGS:
        raise UserError(
            f"{path} must end in {', '.join(ENDINGS)}, and the ending of its "
            f"compression, if any. Received: {ending!r}."
        )
    with contents.opened(path) as lines:
        if ending in contents.JSON_LINES:
            yield from json_records(lines)
        else:
            for number, value in enumerate(_list_of(path, lines), 1):
                place = f"entry {number}"
                with example_files.BAD_ROWS.at(path, place):
                    check_unicode(value)
                yield of_json(place, value)


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
            f"{path} must be a list of JSON objects. Received: "
            f"{shorten_repr(values)}."
        )
    return values
