"""Word embedding tables that are stored in fewer bits than they are used in.

Letters in shapes: B rows, L tokens in a row, E embedding, V vocabulary.
"""

import keras
import tensorflow as tf


class CompactTable:
    """A word embedding table in bfloat16, or in int8 with a scale per word.

    Shapes: values [V, E], scales [V, 1].
    """

    def __init__(
        self, values: tf.Tensor, scales: tf.Tensor | None = None
    ) -> None:
        self._values = values
        self._scales = scales

    def __tf_tensor__(
        self, dtype: tf.DType | None = None, name: str | None = None
    ) -> tf.Tensor:
        table = dequantized(self._values, self._scales)
        return tf.convert_to_tensor(table, dtype, name=name)

    def rows(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the rows of words, float32 [..., E]."""
        scales = None
        if self._scales is not None:
            scales = tf.gather(self._scales, ids)
        return dequantized(tf.gather(self._values, ids), scales)


def dequantized(
    values: tf.Tensor, scales: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns stored numbers in float32, times their scales."""
    values = tf.cast(values, tf.float32)
    return values if scales is None else values * scales


def lookup(table: keras.Variable | tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns rows of a table.

    Shapes: table [V, E], ids [B, L]; returns [B, L, E].
    """
    value = getattr(table, "value", None)
    if isinstance(value, CompactTable):
        return value.rows(ids)
    return tf.gather(tf.convert_to_tensor(table), ids)
