"""How exports store weights: in float32, in bfloat16 or in int8.

Kernels and word embeddings are stored in the given precision; biases,
normalizations, position and segment embeddings, and kernels so small that they
hardly count stay float32. For int8

    values = round(weights / scales),  scales = max |weights| / 127

with a scale for each output of a kernel, or each word of the table, so that no
weight is off by more than half its scale.

With int8, kernels are dequantized to float32 for their products; with bfloat16,
products are in bfloat16 if the layers are.
"""

from collections.abc import Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf.model.compact_table import CompactTable, dequantized

MIN_SIZE = 2**14
"""Elements of the smallest matrix that is not stored in float32."""

_MAX_INT8 = 127  # of int8; -128 is not used
_KERNEL, _TABLE = "kernel", "word_embeddings"
_AXES = {_KERNEL: 0, _TABLE: 1}
"""Name of a variable -> the axis along which its numbers share a scale."""


def stored(variable: keras.Variable, precision: str) -> list[np.ndarray]:
    """Returns the arrays to store for a variable: values, and scales of
    int8."""
    weights = variable.numpy()
    is_float32 = precision == "float32" or variable.name not in _AXES
    if is_float32 or weights.size < MIN_SIZE:
        return [weights]
    if precision == "bfloat16":
        return [weights.astype(tf.bfloat16.as_numpy_dtype)]
    return _quantized(weights, _AXES[variable.name])


def _quantized(weights: np.ndarray, axis: int) -> list[np.ndarray]:
    """Returns int8 values and the float32 scales that they share on an axis."""
    scales = np.abs(weights).max(axis, keepdims=True) / _MAX_INT8
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    return [np.round(weights / scales).astype(np.int8), scales]


def scope(
    variables: Iterable[keras.Variable],
    constants: Iterable[Sequence[tf.Tensor]],
) -> keras.StatelessScope:
    """Returns a scope in which variables have the values that were stored."""
    found = keras.StatelessScope()
    for variable, parts in zip(variables, constants, strict=True):
        # The constructor's argument would cast them all to float32.
        found.add_update((variable, _value(variable, parts)))
    return found


def _value(
    variable: keras.Variable, parts: Sequence[tf.Tensor]
) -> tf.Tensor | CompactTable:
    values, *_ = parts
    if variable.name == _TABLE and values.dtype != tf.float32:
        return CompactTable(*parts)
    # A kernel in bfloat16 is multiplied as it is.
    return dequantized(*parts) if values.dtype == tf.int8 else values
