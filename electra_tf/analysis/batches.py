"""Batches of rows of similar length, and their padding."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from electra_tf.data.packing import batches

ROWS_SPEC = tf.TensorSpec([None, None], tf.int32)
"""The int32 rows of a batch, as an argument of a compiled function."""


def by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yields the indices of the rows of each batch, the shortest rows first."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return batches(order, batch_size)


def padded(
    rows: Sequence[Sequence[float]],
    value: float = 0,
    dtype: npt.DTypeLike = np.int32,
) -> np.ndarray:
    """Pads rows of different lengths to an array, [rows, longest]."""
    array = np.full((len(rows), max(map(len, rows))), value, dtype)
    for line, row in zip(array, rows, strict=True):
        line[: len(row)] = row
    return array
