"""JSON lines: one object a line, one of its fields a document."""

import json
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.data.formats import text_lines
from electra_tf.data.formats.text_lines import Line, Statistics
from electra_tf.util.errors import UserError

EXTENSIONS = (".jsonl", ".ndjson")
MAX_BYTES = 2**27  # of a line; it is in memory


class BadLineError(UserError):
    """A line that is no object with a text in the field.

    Attributes:
      number: of the line, counted from 1 at the start of the stream.
      problem: what is wrong with it.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"line {number}: {problem}")
        self.number = number
        self.problem = problem


def read(
    file: BinaryIO,
    statistics: Statistics,
    *,
    text_field: str,
    skip_bad_lines: bool,
) -> Iterator[Line]:
    """Reads documents, one a line.

    Args:
      file: of JSON lines; blank ones are passed over.
      statistics: counts what is read.
      text_field: whose value is the text.
      skip_bad_lines: whether to count bad lines and leave them out.

    Yields:
      The lines of a document that are not blank, and None at its end.

    Raises:
      BadLineError: at the first bad line, unless they are left out.
    """
    number = 0
    while raw := file.readline(MAX_BYTES + 1):
        number += 1
        if not raw.strip():
            continue
        text, problem = _text(raw, text_field)
        if len(raw) > MAX_BYTES:
            _skip_line(file, raw)
        if not problem:
            content = text.encode(errors="surrogatepass")
            yield from text_lines.read_document(content, statistics)
        elif skip_bad_lines:
            statistics.bad_json_lines += 1
        else:
            raise BadLineError(number, problem)


def _text(raw: bytes, text_field: str) -> tuple[str, str]:
    """Returns the text of a line, and what is wrong with it, if anything."""
    if len(raw) > MAX_BYTES:
        return "", f"more than {MAX_BYTES} bytes"
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return "", f"no JSON: {error}"
    if not isinstance(value, dict):
        return "", f"no object but {type(value).__name__}"
    if text_field not in value:
        fields = ", ".join(map(repr, value)) or "nothing"
        return "", f"no field {text_field!r} but {fields}"
    text = value[text_field]
    if not isinstance(text, str):
        kind = type(text).__name__
        return "", f"field {text_field!r} holds no string but {kind}"
    return text, ""


def _skip_line(file: BinaryIO, raw: bytes) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = file.readline(MAX_BYTES)
