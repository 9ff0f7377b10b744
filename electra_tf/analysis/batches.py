"""Rows in batches, those of similar length together."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt


def by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yields the numbers of the rows of each batch, the shortest first.

    Args:
      lengths: of the rows.
      batch_size: rows of a batch.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for first in range(0, len(order), batch_size):
        yield order[first : first + batch_size]


def padded(
    rows: Sequence[Sequence[float]],
    value: float = 0,
    dtype: npt.DTypeLike = np.int32,
) -> np.ndarray:
    """Makes an array of rows of several lengths, [rows, longest].

    Args:
      rows: one at least.
      value: after the end of shorter ones.
      dtype: of the array.
    """
    array = np.full((len(rows), max(map(len, rows))), value, dtype)
    for line, row in zip(array, rows, strict=True):
        line[: len(row)] = row
    return array
