"""Parquet files: one row, one of its columns a document."""

import importlib
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.data.formats import text_lines
from electra_tf.data.formats.json_lines import BadLineError
from electra_tf.data.formats.text_lines import Line, Statistics
from electra_tf.util.errors import UserError

_BATCH_ROWS = 256


def read(
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
      BadLineError: if there is no such column of text, or at the first row
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
                    raise BadLineError(number, f"no value in {text_field!r}")
    except arrow.ArrowException as error:
        raise OSError(str(error)) from error


def _check_column(arrow: object, schema: object, text_field: str) -> None:
    """Checks that there is a column of text."""
    if text_field not in schema.names:
        columns = ", ".join(map(repr, schema.names))
        raise BadLineError(1, f"no column {text_field!r} but {columns}")
    kind = schema.field(text_field).type
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        raise BadLineError(1, f"column {text_field!r} holds no text but {kind}")
