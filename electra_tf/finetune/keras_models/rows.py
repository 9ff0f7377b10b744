"""Rows of tokens made in a graph, for `tf.data` and for models of strings."""

import tensorflow as tf

from electra_tf.model.tokenization import Vocabulary


def pack(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None,
    vocabulary: Vocabulary,
    length: int,
) -> dict[str, tf.Tensor]:
    """Makes rows of one or two texts.

    The rows are those of `preprocessing.join` and `truncate_pair`.

    Args:
      first: int32 [B, (n)], ids.
      second: int32 [B, (m)], ids; None for single texts.
      vocabulary: of the tokens.
      length: L, tokens of each row.

    Returns:
      "input_ids", "input_mask" and "segment_ids", int32 [B, L].
    """
    rows = first.nrows(out_type=tf.int32)
    cls = tf.fill([rows, 1], vocabulary.cls_id)
    sep = tf.fill([rows, 1], vocabulary.sep_id)
    if second is None:
        parts = [tf.concat([cls, first[:, : length - 2], sep], 1)]
    else:
        first, second = _truncated(first, second, length - 3)
        parts = [
            tf.concat([cls, first, sep], 1),
            tf.concat([second, sep], 1),
        ]
    ids = tf.concat(parts, 1)
    segments = tf.concat(
        [tf.ones_like(part) * i for i, part in enumerate(parts)], 1
    )
    shape = [None, length]
    sizes = ids.row_lengths()
    return {
        "input_ids": ids.to_tensor(shape=shape),
        "input_mask": tf.sequence_mask(sizes, length, tf.int32),
        "segment_ids": segments.to_tensor(shape=shape),
    }


def _truncated(
    first: tf.RaggedTensor, second: tf.RaggedTensor, size: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    n, m = first.row_lengths(), second.row_lengths()
    half = tf.constant(size // 2, n.dtype)
    rest = size - half
    kept_n = tf.where(m <= half, size - m, tf.minimum(n, rest))
    kept_m = tf.where(m <= half, m, tf.maximum(half, size - n))
    fits = n + m <= size
    return (
        _cut(first, tf.where(fits, n, kept_n)),
        _cut(second, tf.where(fits, m, kept_m)),
    )


def _cut(tokens: tf.RaggedTensor, sizes: tf.Tensor) -> tf.RaggedTensor:
    places = tf.ragged.range(tokens.row_lengths())
    return tf.ragged.boolean_mask(tokens, places < sizes[:, tf.newaxis])
