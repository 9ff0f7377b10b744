"""Scores of texts by one forward pass, as `electra_tf.Scorer` computes them.

The signature reads `text`, string [B], and returns, for texts of at most T
word pieces,

    tokens      string [B, T], the word pieces, "" past the end
    log_probs   float32 [B, T], of each piece given all others, nats; 0 past
                the end
    num_tokens  int32 [B], word pieces of each text
    total       float32 [B], the sum of log_probs
    mean        float32 [B], the total per word piece; 0 without any

Nothing is cut: a text that is longer than a row is read in windows, each half a
window after the one before, and a piece takes its score from the window where
the shorter side of its context is longest; the first window wins ties.

Letters in shapes: B texts, T word pieces, W windows, L tokens in a row.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from electra_tf.model.text_reader import Ids, TextReader
from electra_tf.serving.blocks import in_blocks

LogProbs = Callable[[Ids], tf.Tensor]
"""Rows [CLS] text [SEP] -> float32 [B, L], nats; valid within the text."""


class _Windows(NamedTuple):
    """Windows of all texts, in the order of texts and pieces, int32 [W] each.

    Attributes:
      starts: the first piece that is read, counted over all texts.
      ends: one past the last.
      score_starts: the first piece that takes its score from here.
      score_ends: one past the last of these.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    score_starts: tf.Tensor
    score_ends: tf.Tensor


def score(
    text: tf.Tensor, reader: TextReader, log_probs: LogProbs
) -> dict[str, tf.Tensor]:
    """Scores texts, see the module.

    Args:
      text: string [B].
      reader: tokenizes texts and packs rows.
      log_probs: scores rows as long as the reader's.
    """
    pieces = reader.tokenize(text)  # [B, (pieces)]
    values = pieces.with_values(_log_probs(pieces, reader, log_probs))
    num_tokens = tf.cast(pieces.row_lengths(), tf.int32)
    total = tf.reduce_sum(values, 1)
    tokens = tf.gather(reader.vocabulary.tokens, pieces.values)
    return {
        "tokens": pieces.with_values(tokens).to_tensor(),
        "log_probs": values.to_tensor(),
        "num_tokens": num_tokens,
        "total": total,
        "mean": total / tf.cast(tf.maximum(num_tokens, 1), tf.float32),
    }


def _log_probs(
    pieces: tf.RaggedTensor, reader: TextReader, log_probs: LogProbs
) -> tf.Tensor:
    """Returns the score of every piece, float32 [pieces]."""
    found = _windows(pieces, reader.max_seq_length - 2)
    places = tf.ragged.range(found.starts, found.ends)  # [W, (pieces)]
    ids = reader.rows(tf.gather(pieces.values, places))
    places = places.to_tensor(-1)  # [W, L - 2]
    is_scored = places >= found.score_starts[:, tf.newaxis]
    is_scored &= places < found.score_ends[:, tf.newaxis]

    def of_block(rows: slice) -> list[tf.Tensor]:
        values = log_probs({name: x[rows] for name, x in ids.items()})
        return [tf.boolean_mask(values[:, 1:-1], is_scored[rows])]

    like = [tf.TensorSpec([None], tf.float32)]
    (values,) = in_blocks(tf.shape(places)[0], of_block, like)
    return values


def _windows(pieces: tf.RaggedTensor, size: int) -> _Windows:
    """Returns the windows of texts, each of at most `size` pieces."""
    lengths = tf.cast(pieces.row_lengths(), tf.int32)  # [B]
    step = max(1, size // 2)
    lasts = tf.maximum(lengths - size, 0)  # where each last window starts
    counts = tf.where(lengths > 0, 1 - (-lasts // step), 0)
    numbers = tf.ragged.range(counts)  # [B, (windows)]
    texts = numbers.value_rowids()
    starts = tf.minimum(step * numbers.values, tf.gather(lasts, texts))
    lengths = tf.gather(lengths, texts)
    ends = tf.minimum(starts + size, lengths)
    # The shorter sides of two windows are equal halfway between their middles.
    is_first = numbers.values == 0
    before = tf.roll(ends, 1, 0)
    score_starts = tf.where(is_first, 0, (before - 1 + starts) // 2 + 1)
    score_ends = tf.where(
        tf.roll(is_first, -1, 0), lengths, tf.roll(score_starts, -1, 0)
    )
    begins = tf.cast(tf.gather(pieces.row_starts(), texts), tf.int32)
    return _Windows(
        *(begins + x for x in (starts, ends, score_starts, score_ends))
    )
