"""Rows of files and data sets: their values, and the handling of bad rows."""

import contextlib
import difflib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from electra_tf.util import files
from electra_tf.util.errors import UserError, shorten_repr

MAX_JSON_BYTES = 2**27
"""Maximum size of a line of JSON, which is held in memory as a whole."""

Json = bool | int | float | str | list | dict | None


class BadRowError(ValueError):
    """A row cannot be used; the message says what it must be."""

    def __init__(self, problem: str, place: int | str = 0) -> None:
        super().__init__(problem)
        self.place = place


class Line(NamedTuple):
    """A line of a file."""

    number: int
    text: str | None


class Record(NamedTuple):
    """A row."""

    place: int | str
    values: Mapping[str, Any]
    problem: str = ""

    def value(self, column: str) -> Any:  # noqa: ANN401 (as the file has it)
        """Returns the value of a column."""
        if self.problem:
            raise BadRowError(self.problem)
        if column in self.values:
            return self.values[column]
        value: Any = self.values
        for part in column.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise BadRowError(
                    f"A row must have {column!r}. "
                    + received_columns(column, self.values)
                )
            value = value[part]
        return value

    def has(self, column: str) -> bool:
        """Returns whether the row can be read and has a column."""
        try:
            self.value(column)
        except BadRowError:
            return False
        return True

    def string(self, column: str) -> str:
        """Returns a text, which may be empty or have lone surrogates."""
        return self._of_type(column, str, "a text")

    def text(self, column: str) -> str:
        """Returns a text that is not blank."""
        value = self.value(column)
        if not isinstance(value, str) or not value.strip():
            raise BadRowError(
                f"{column!r} must be a text that is not empty. Received: "
                f"{shorten_repr(value)}."
            )
        if not is_unicode(value):
            raise BadRowError(
                f"{column!r} must be Unicode text. Received: a lone surrogate "
                f"in {shorten_repr(value)}."
            )
        return value

    def label(self, column: str) -> str | None:
        """Returns a label or number as text; None if it is null or blank."""
        value = self.value(column)
        if isinstance(value, list | dict):
            raise BadRowError(
                f"{column!r} must be a text or a number. Received: "
                f"{shorten_repr(value)}."
            )
        if value is None or isinstance(value, str):
            return (value or "").strip() or None
        return json.dumps(value)

    def texts(self, column: str) -> tuple[str, ...]:
        """Returns a list of texts that are not blank; integers become texts."""
        values = self.value(column)
        is_list = isinstance(values, list) and values
        if not is_list or not all(map(_is_text, values)):
            raise BadRowError(
                f"{column!r} must be a list of texts that are not empty. "
                f"Received: {shorten_repr(values)}."
            )
        return tuple(map(str, values))

    def identity(self, column: str) -> str:
        """Returns the id of a question: a text, or an integer as text."""
        value = self.value(column)
        return str(value) if is_integer(value) else self.text(column)

    def items(self, column: str, *, is_optional: bool = False) -> list:
        """Returns a list."""
        if is_optional and self._is_missing(column):
            return []
        return self._of_type(column, list, "a list")

    def integer(self, column: str) -> int:
        """Returns an integer."""
        return self._of_type(column, int, "a whole number")

    def flag(self, column: str) -> bool:
        """Returns a boolean; False if it is missing or null."""
        if self._is_missing(column):
            return False
        return self._of_type(column, bool, "true or false")

    def _is_missing(self, column: str) -> bool:
        return not self.has(column) or self.value(column) is None

    def _of_type(self, column: str, kind: type, expected: str) -> Any:  # noqa: ANN401
        value = self.value(column)
        is_flag = isinstance(value, bool)
        if not isinstance(value, kind) or (is_flag and kind is int):
            raise BadRowError(
                f"{column!r} must be {expected}. Received: "
                f"{shorten_repr(value)}."
            )
        return value


def of_json(place: int | str, content: Json) -> Record:
    """Makes a record of a JSON object; a value of another type is a problem."""
    if isinstance(content, Mapping):
        return Record(place, content)
    problem = f"A row must be a JSON object. Received: {shorten_repr(content)}."
    return Record(place, {}, problem)


def _is_text(value: Any) -> bool:  # noqa: ANN401 (any JSON)
    return is_integer(value) or (isinstance(value, str) and bool(value.strip()))


def is_integer(value: Any) -> bool:  # noqa: ANN401 (any JSON)
    """Returns whether a value of JSON is an integer, which a boolean is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def received_columns(column: str, columns: Collection[str]) -> str:
    """Says which columns there are, and suggests the closest one."""
    near = difflib.get_close_matches(column, columns, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"Received: {', '.join(map(repr, columns)) or 'nothing'}.{hint}"


class BadRows:
    """Refuses rows that cannot be used, or counts them."""

    def __init__(
        self,
        *,
        skip: bool,
        way_out: str = "Correct it, or set --skip_bad_rows to skip such rows.",
    ) -> None:
        self.skip = skip
        self._way_out = way_out
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
    def at(
        self, path: str | os.PathLike[str], place: int | str
    ) -> Iterator[None]:
        """Makes the context in which one row is read."""
        try:
            yield
        except BadRowError as error:
            if not self.skip:
                raise UserError(
                    f"{path}, {describe_place(place)}: {error} {self._way_out}"
                ) from error
            self.skip_row(path, place, str(error))

    def skip_row(
        self, path: str | os.PathLike[str], place: int | str, problem: str
    ) -> None:
        """Counts a row that is left out."""
        self._places.setdefault(str(path), set()).add(place)
        self._first.setdefault(str(path), f"{describe_place(place)}: {problem}")


def describe_place(place: int | str) -> str:
    """Names the place of a row: a line, from 1, or another description."""
    return f"line {place}" if isinstance(place, int) else place


def numbered(lines: Iterable[bytes]) -> Iterator[Line]:
    """Yields lines with their numbers, without line breaks."""
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        yield Line(number, decode(text))


def decode(line: bytes) -> str | None:
    """Returns the text of a line, None if it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def json_records(
    lines: Iterable[bytes], *, allows_surrogates: bool = False
) -> Iterator[Record]:
    """Reads JSON lines."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = of_json(number, _parse_line(line))
            if not allows_surrogates and b"\\u" in line:
                check_unicode(record.values)
        except BadRowError as error:
            record = Record(number, {}, str(error))
        yield record


def _parse_line(line: bytes) -> Json:
    """Parses a line of JSON of at most `MAX_JSON_BYTES`."""
    if len(line) > MAX_JSON_BYTES:
        raise BadRowError(
            f"A row must have {MAX_JSON_BYTES} bytes or fewer. Received: more."
        )
    return parse_json(decode(line))


def parse_json(text: str | None) -> Json:
    """Parses a line of JSON; any line may begin with a byte-order mark."""
    if text is None:
        raise BadRowError("A row must be UTF-8 text.")
    try:
        return files.parse_json(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at column {error.colno}"
    except ValueError as error:
        problem = str(error)
    raise BadRowError(f"A row must be JSON. Received: {problem}.")


def is_unicode(text: str) -> bool:
    """Returns whether a text can be written as UTF-8: no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_unicode(value: Json) -> None:
    """Checks that all texts in a value can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadRowError(
            "A row must be Unicode text. Received: a surrogate."
        ) from error
    except RecursionError as error:
        raise BadRowError(
            "A row must be JSON. Received: values that nest too deeply."
        ) from error
