"""Rows of text files, and what becomes of bad ones."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from electra_tf.util.errors import UserError


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
        self._lines: dict[str, set[int]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """File -> rows left out; a file may be read more than once."""
        return {path: len(lines) for path, lines in self._lines.items()}

    @contextlib.contextmanager
    def at(self, path: pathlib.Path, line: int) -> Iterator[None]:
        """Stands around the reading of one row.

        Args:
          path: of the file.
          line: where the row begins, from 1.

        Raises:
          UserError: naming file and line, if a `BadRowError` is raised inside
            and bad rows are not left out.
        """
        try:
            yield
        except BadRowError as error:
            if not self.skip:
                raise UserError(
                    f"{path}, line {line}: {error} Mend it, or set "
                    "--skip_bad_rows to leave such rows out."
                ) from error
            self._lines.setdefault(str(path), set()).add(line)


def read_lines(path: pathlib.Path) -> list[Line]:
    """Reads the lines of a text file, as they end in a line feed.

    No other character ends a line: text may hold those that Unicode calls
    line separators.

    Raises:
      UserError: if the file is missing or empty.
    """
    try:
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise UserError(
            f"{path} must be a file of the task. Received: {error.strerror}. "
            "Set --finetuning_data_dir to the directory that holds a "
            "directory for each task."
        ) from error
    if not content.strip():
        raise UserError(f"{path} must hold examples. Received: an empty file.")
    lines = content.removesuffix(b"\n").split(b"\n")
    return [
        Line(number, _decode(line.removesuffix(b"\r")))
        for number, line in enumerate(lines, start=1)
    ]


def columns(line: Line, count: int) -> list[str]:
    """Splits a line at its tabs.

    Args:
      line: of the file.
      count: columns it must have.

    Raises:
      BadRowError: if it has another number, or is not UTF-8.
    """
    if line.text is None:
        raise BadRowError("A row must be UTF-8 text.")
    fields = line.text.split("\t")
    if len(fields) != count:
        raise BadRowError(
            f"A row must have {count} columns, with tabs between. Received: "
            f"{len(fields)}."
        )
    return fields


def _decode(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
