"""Byte offsets of UTF-8 characters and words, inside a graph."""

import functools

import tensorflow as tf
import tensorflow_text as tft

_LONGER_CODES = (0x80, 0x800, 0x10000)  # the first of 2, 3 and 4 bytes


def split_words(
    text: tf.Tensor, between: str
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits text into words.

    Shapes: text [B].
    """
    text = without_nul(text)
    words, starts, ends = tft.regex_split_with_offsets(text, between)
    return words, tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)


def without_nul(text: tf.Tensor) -> tf.Tensor:
    """Replaces NUL, where tensorflow_text stops, by another control character.

    Shapes: text [B].
    """
    return tf.strings.regex_replace(text, r"\x00", "\x01")


def num_characters(text: tf.Tensor) -> tf.Tensor:
    """Counts characters other than spaces, int32 [B]."""
    text = tf.strings.regex_replace(text, " ", "")
    return tf.strings.length(text, unit="UTF8_CHAR")


def character_bytes(text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the byte offsets at which characters begin and end.

    Shapes: text [B].
    """
    codes, starts = tf.strings.unicode_decode_with_offsets(
        text, "UTF-8", errors="ignore"
    )
    # On flat values: operators of ragged tensors add hundreds of graph nodes.
    flat, begins = codes.values, tf.cast(starts.values, tf.int32)
    longer = (tf.cast(flat >= code, tf.int32) for code in _LONGER_CODES)
    ends = begins + 1 + functools.reduce(tf.add, longer)
    return codes.with_values(begins), codes.with_values(ends)


def num_characters_before(
    text: tf.Tensor, rows: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Counts characters other than spaces before bytes of texts, int32 [S]."""
    codes, starts = tf.strings.unicode_decode_with_offsets(
        text, "UTF-8", errors="ignore"
    )
    bases = tf.cumsum(tf.strings.length(text), exclusive=True)
    begins = tf.gather(bases, codes.value_rowids())
    begins += tf.cast(starts.values, tf.int32)
    begins = tf.boolean_mask(begins, codes.values != ord(" "))
    base = tf.gather(bases, rows)
    found = tf.searchsorted(begins, base + tf.cast(ends, tf.int32))
    return found - tf.searchsorted(begins, base)


def value_of_row(
    values: tf.RaggedTensor,
    rows: tf.Tensor,
    columns: tf.Tensor,
    is_there: tf.Tensor,
) -> tf.Tensor:
    """Looks up S values by row and column; int32 [S], 0 where there is none."""
    begins = tf.gather(tf.cast(values.row_starts(), tf.int32), rows)
    flat = tf.concat([[0], values.values], 0)
    return tf.gather(flat, tf.where(is_there, 1 + begins + columns, 0))
