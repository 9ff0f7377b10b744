"""Parquet files, one record a row."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from electra_tf.data.formats.rows import BadRowError, Record, received
from electra_tf.util import optional_packages

_BATCH_ROWS = 256


def read(file: BinaryIO, column: str) -> Iterator[Record]:
    """Reads a column of texts.

    Args:
      file: that can be read at any place.
      column: its name.

    Yields:
      The column of each row; None where it holds nothing.

    Raises:
      BadRowError: if there is no such column of texts.
      OSError: if the file is damaged.
      UserError: if pyarrow is not installed.
    """
    arrow = optional_packages.load("pyarrow")
    parquet = optional_packages.load("pyarrow.parquet")
    try:
        opened = parquet.ParquetFile(file)
        _check_column(arrow, opened.schema_arrow, column)
        number = 0
        for batch in opened.iter_batches(_BATCH_ROWS, columns=[column]):
            for value in batch.column(0):
                number += 1
                yield Record(number, {column: value.as_py()})
    except arrow.ArrowException as error:
        raise OSError(str(error)) from error


def _check_column(arrow: Any, schema: Any, column: str) -> None:  # noqa: ANN401
    """Checks that there is a column of texts."""
    if column not in schema.names:
        raise BadRowError(
            f"There must be a column {column!r}. "
            + received(column, schema.names),
            place=1,
        )
    kind = schema.field(column).type
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        raise BadRowError(
            f"Column {column!r} must hold texts. Received: {kind}.", place=1
        )
