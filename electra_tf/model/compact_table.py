"""Word embedding tables that are stored in fewer bits than they are used in.

Letters in shapes: B rows, L tokens in a row, E embedding, V vocabulary.
"""

import keras
import tensorflow as tf


class CompactTable:
    """A word embedding table in bfloat16, or in int8 with a scale per word.

    Where TensorFlow expects a tensor, it converts to the whole table in
    float32; `lookup` converts only the rows that it reads.

    Args:
      values: bfloat16 or int8 [V, E].
      scales: float32 [V, 1], factors of the rows; None for 1.
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
        """Returns the rows of words, float32 [..., E].

        Args:
          ids: int32 [...].
        """
        scales = None
        if self._scales is not None:
            scales = tf.gather(self._scales, ids)
        return dequantized(tf.gather(self._values, ids), scales)


def dequantized(
    values: tf.Tensor, scales: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns stored numbers in float32, times their scales.

    Args:
      values: of any dtype.
      scales: float32, of a shape that broadcasts; None for 1.
    """
    values = tf.cast(values, tf.float32)
    return values if scales is None else values * scales


def lookup(table: keras.Variable | tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns rows of a table.

    Args:
      table: float32 [V, E]; in an export its value may be a `CompactTable`.
      ids: int32 [B, L].

    Returns:
      float32 [B, L, E].
    """
    value = getattr(table, "value", None)
    if isinstance(value, CompactTable):
        return value.rows(ids)
    return tf.gather(tf.convert_to_tensor(table), ids)
