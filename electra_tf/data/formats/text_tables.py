"""Tables of documents: JSON lines and Parquet, one row a document.

A row of JSON lines is a line with one object; one of its fields, or one column
of a Parquet file, is the text.
"""

import importlib
import json
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.data.formats import text_lines
from electra_tf.data.formats.text_lines import Line, Statistics
from electra_tf.util.errors import UserError

JSON_LINES_EXTENSIONS = (".jsonl", ".ndjson")
MAX_LINE_BYTES = 2**27  # of JSON; it is in memory
_BATCH_ROWS = 256  # of Parquet


class BadRowError(UserError):
    """A line or row without a text in its field or column.

    Attributes:
      number: of the line or row, counted from 1 at the start of the stream.
      problem: what is wrong with it.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"line {number}: {problem}")
        self.number = number
        self.problem = problem


def read_json_lines(
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
      BadRowError: at the first bad line, unless they are left out.
    """
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if not raw.strip():
            continue
        text, problem = _text(raw, text_field)
        if len(raw) > MAX_LINE_BYTES:
            _skip_line(file, raw)
        if not problem:
            content = text.encode(errors="surrogatepass")
            yield from text_lines.read_document(content, statistics)
        elif skip_bad_lines:
            statistics.bad_json_lines += 1
        else:
            raise BadRowError(number, problem)


def _text(raw: bytes, text_field: str) -> tuple[str, str]:
    """Returns the text of a line, and its problem; one of both is ""."""
    if len(raw) > MAX_LINE_BYTES:
        return "", f"more than {MAX_LINE_BYTES} bytes"
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
        raw = file.readline(MAX_LINE_BYTES)


def read_parquet(
    file: BinaryIO,
    statistics: Statistics,
    *,
    text_field: str,
    skip_bad_lines: bool,
) -> Iterator[Line]:
    """Reads documents, one a row.

    Args:
      file: that can be read at any place.
      statistics: counts what is read.
      text_field: the column that is the text.
      skip_bad_lines: whether to count rows without a text and leave them out.

    Yields:
      The lines of a document that are not blank, and None at its end.

    Raises:
      BadRowError: if there is no such column of text, or at the first row
        without a text, unless these are left out.
      OSError: if the file is damaged.
      UserError: if pyarrow is not installed.
    """
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UserError(
            "Parquet files are read with pyarrow. Received: an installation "
            "without it. Run: python -m pip install pyarrow"
        ) from error
    try:
        opened = parquet.ParquetFile(file)
        _check_column(arrow, opened.schema_arrow, text_field)
        number = 0
        for batch in opened.iter_batches(_BATCH_ROWS, columns=[text_field]):
            for text in batch.column(0):
                number += 1
                if text.is_valid:
                    content = text.as_py().encode()
                    yield from text_lines.read_document(content, statistics)
                elif skip_bad_lines:
                    statistics.bad_json_lines += 1
                else:
                    raise BadRowError(number, f"no value in {text_field!r}")
    except arrow.ArrowException as error:
        raise OSError(str(error)) from error


def _check_column(arrow: object, schema: object, text_field: str) -> None:
    """Checks that there is a column of text."""
    if text_field not in schema.names:
        columns = ", ".join(map(repr, schema.names))
        raise BadRowError(1, f"no column {text_field!r} but {columns}")
    kind = schema.field(text_field).type
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        raise BadRowError(1, f"column {text_field!r} holds no text but {kind}")
