"""Rows with named values, whatever file or data set they are from."""

import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.finetune.readers.reading import BadRowError, Json
from electra_tf.util.errors import shown

_MOST_NAMED = 20


class Record(NamedTuple):
    """A row.

    Attributes:
      place: where it begins: a line, from 1, or what else tells it.
      values: column -> value; empty where the row cannot be read.
      problem: what is wrong with it; "" for nothing.
    """

    place: int | str
    values: Mapping[str, Any]
    problem: str = ""

    def value(self, column: str) -> Any:  # noqa: ANN401 (as the file has it)
        """Returns what is in a column.

        Args:
          column: its name; with dots for a field of a field.

        Raises:
          BadRowError: if the row has no such column or cannot be read.
        """
        if self.problem:
            raise BadRowError(self.problem)
        if column in self.values:
            return self.values[column]
        value: Any = self.values
        for part in column.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise BadRowError(
                    f"A row must have {column!r}. "
                    + received(column, self.values)
                )
            value = value[part]
        return value

    def has(self, column: str) -> bool:
        """Says whether there is such a column, and the row can be read."""
        try:
            self.value(column)
        except BadRowError:
            return False
        return True

    def text(self, column: str) -> str:
        """Returns a text.

        Raises:
          BadRowError: if it is none, or holds nothing.
        """
        value = self.value(column)
        if not isinstance(value, str) or not value.strip():
            raise BadRowError(
                f"{column!r} must be a text that is not empty. Received: "
                f"{shown(value)}."
            )
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadRowError(
                f"{column!r} must be Unicode text. Received: {error}."
            ) from error
        return value

    def label(self, column: str) -> str | None:
        """Returns a label or value as text, None where there is none.

        Raises:
          BadRowError: if it is a list or an object.
        """
        value = self.value(column)
        if isinstance(value, list | dict):
            raise BadRowError(
                f"{column!r} must be a text or a number. Received: {value!r}."
            )
        if value is None or isinstance(value, str):
            return (value or "").strip() or None
        return json.dumps(value)

    def texts(self, column: str) -> tuple[str, ...]:
        """Returns a list of texts, none of them empty; numbers as texts.

        Raises:
          BadRowError: if it is anything else.
        """
        values = self.value(column)
        is_list = isinstance(values, list) and values
        if not is_list or not all(map(_is_text, values)):
            raise BadRowError(
                f"{column!r} must be a list of texts that are not empty. "
                f"Received: {shown(values)}."
            )
        return tuple(map(str, values))

    def identity(self, column: str) -> str:
        """Returns the name of a question: a text, or a number as one.

        Raises:
          BadRowError: if there is none.
        """
        value = self.value(column)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if is_number else self.text(column)

    def items(self, column: str, *, is_optional: bool = False) -> list:
        """Returns a list.

        Args:
          column: that holds it.
          is_optional: whether the empty list stands for one that is not there.

        Raises:
          BadRowError: if there is none.
        """
        if is_optional and self._is_missing(column):
            return []
        return self._of_type(column, list, "a list")

    def integer(self, column: str) -> int:
        """Returns a whole number.

        Raises:
          BadRowError: if there is none.
        """
        return self._of_type(column, int, "a whole number")

    def flag(self, column: str) -> bool:
        """Returns a truth value; false for one that is not there.

        Raises:
          BadRowError: if it is something else.
        """
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
                f"{column!r} must be {expected}. Received: {shown(value)}."
            )
        return value


def of_json(place: int | str, content: Json) -> Record:
    """Makes a record of a JSON object; of anything else one with a problem."""
    if isinstance(content, Mapping):
        return Record(place, content)
    problem = f"There must be a JSON object. Received: {shown(content)}."
    return Record(place, {}, problem)


def _is_text(value: Any) -> bool:  # noqa: ANN401 (any JSON)
    return isinstance(value, str | int) and bool(str(value).strip())


def listed(names: Sequence[str]) -> str:
    """Lists names, of many the first."""
    text = ", ".join(names[:_MOST_NAMED])
    rest = len(names) - _MOST_NAMED
    return text + (f" and {rest} others" if rest > 0 else "")


def received(column: str, columns: Collection[str]) -> str:
    """Says which columns there are, and which of them may be meant."""
    near = difflib.get_close_matches(column, columns, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"Received: {', '.join(map(repr, columns)) or 'nothing'}.{hint}"
