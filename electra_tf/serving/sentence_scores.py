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

import tensorflow as tf

from electra_tf.model.text_reader import Ids, TextReader
from electra_tf.model.text_windows import windows
from electra_tf.serving.blocks import in_blocks

LogProbs = Callable[[Ids], tf.Tensor]
"""Rows [CLS] text [SEP] -> float32 [B, L], nats; valid within the text."""


def score(
    text: tf.Tensor, reader: TextReader, log_probs: LogProbs
) -> dict[str, tf.Tensor]:
    """Scores texts, see the module.

    Shapes: text [B].
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
    num_tokens = tf.cast(pieces.row_lengths(), tf.int32)
    found = windows(num_tokens, reader.max_seq_length - 2)
    begins = tf.cast(tf.gather(pieces.row_starts(), found.texts), tf.int32)
    starts, ends, score_starts, score_ends = (begins + x for x in found[1:])
    places = tf.ragged.range(starts, ends)  # [W, (pieces)]
    ids = reader.rows(tf.gather(pieces.values, places))
    places = places.to_tensor(-1)  # [W, L - 2]
    is_scored = places >= score_starts[:, tf.newaxis]
    is_scored &= places < score_ends[:, tf.newaxis]

    def of_block(rows: slice) -> list[tf.Tensor]:
        values = log_probs({name: x[rows] for name, x in ids.items()})
        return [tf.boolean_mask(values[:, 1:-1], is_scored[rows])]

    like = [tf.TensorSpec([None], tf.float32)]
    (values,) = in_blocks(tf.shape(places)[0], of_block, like)
    return values
