"""Rows of text files, and what becomes of bad ones."""

import contextlib
import io
import json
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from electra_tf.util import compression
from electra_tf.util.errors import UserError, shown

Json = bool | int | float | str | list | dict | None


class BadRowError(ValueError):
    """A row cannot be used; the text says what it must be."""


class Line(NamedTuple):
    """A line of a file.

    Attributes:
      number: from 1.
      text: without the line break; None if it is not UTF-8.
    """

    number: int
    text: str | None


class BadRows:
    """Refuses rows that cannot be used, or counts them.

    Args:
      skip: whether to leave them out and count them.

    """

    def __init__(self, *, skip: bool) -> None:
        self.skip = skip
        self._places: dict[str, set[int | str]] = {}
        self._first: dict[str, str] = {}

    @property
    def counts(self) -> dict[str, int]:
        """File -> rows left out; a file may be read more than once."""
        return {path: len(places) for path, places in self._places.items()}

    @property
    def notes(self) -> list[str]:
        """A note for each file: rows left out, and the first problem."""
        return [
            f"{count:,} bad rows of {path} are left out. The first, "
            f"{self._first[path]}"
            for path, count in self.counts.items()
        ]

    @contextlib.contextmanager
    def at(self, path: pathlib.Path, place: int | str) -> Iterator[None]:
        """Stands around the reading of one row.

        Args:
          path: of the file.
          place: where the row begins: a line, from 1, or what else tells it.

        Raises:
          UserError: naming file and place, if a `BadRowError` is raised inside
            and bad rows are not left out.
        """
        try:
            yield
        except BadRowError as error:
            if not self.skip:
                raise UserError(
                    f"{path}, {_where(place)}: {error} Mend it, or set "
                    "--skip_bad_rows to leave such rows out."
                ) from error
            self.leave_out(path, place, str(error))

    def leave_out(
        self, path: pathlib.Path, place: int | str, problem: str
    ) -> None:
        """Counts a row."""
        self._places.setdefault(str(path), set()).add(place)
        self._first.setdefault(str(path), f"{_where(place)}: {problem}")


def read_bytes(path: pathlib.Path) -> bytes:
    """Reads a file, a compressed one unpacked, without a byte-order mark.

    Raises:
      UserError: if the file is missing, empty or damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path} must be a file of the task. Received: {error.strerror}. "
            "Set --finetuning_data_dir to the directory that holds a "
            "directory for each task."
        ) from error
    try:
        _, file = compression.decompress(path.name, io.BytesIO(content))
        content = file.read()
    except compression.ERRORS as error:
        raise UserError(
            f"{path} must be a whole {path.suffix} file. Received: {error}"
        ) from error
    if not content.strip():
        raise UserError(f"{path} must hold examples. Received: an empty file.")
    return content.removeprefix(b"\xef\xbb\xbf")


def read_lines(path: pathlib.Path) -> list[Line]:
    """Reads the lines of a text file, as they end in a line feed.

    No other character ends a line: text may hold those that Unicode calls
    line separators.

    Raises:
      UserError: as `read_bytes`.
    """
    return list(numbered(io.BytesIO(read_bytes(path))))


def numbered(lines: Iterable[bytes]) -> Iterator[Line]:
    """Yields lines with their numbers, without what ends them."""
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        yield Line(number, decode(text))


def parse_json(text: str | None) -> Json:
    """Reads a line of JSON.

    Args:
      text: of the line; None if it is not UTF-8.

    Raises:
      BadRowError: if it is no JSON.
    """
    if text is None:
        raise BadRowError("A row must be UTF-8 text.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:
        problem = str(error)
    raise BadRowError(f"A row must be JSON. Received: {problem}.")


def parse_object(text: str | None) -> dict[str, Json]:
    """Reads a line of JSON that must be an object.

    Args:
      text: of the line; None if it is not UTF-8.

    Raises:
      BadRowError: if it is anything else.
    """
    value = parse_json(text)
    if not isinstance(value, dict):
        raise BadRowError(
            f"A row must be a JSON object. Received: {shown(value)}."
        )
    return value


def _where(place: int | str) -> str:
    return f"line {place}" if isinstance(place, int) else place


def decode(line: bytes) -> str | None:
    """Returns the text of a line, None if it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
