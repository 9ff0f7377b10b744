"""Discriminator and generator: which tokens are wrong, and what replaces them.

The signature reads `text`, string [B], and returns, for rows of L tokens,

    tokens                string [B, L], the word pieces, "" on padding
    start_byte, end_byte  int32 [B, L], the bytes of the user's text that each
                          token was made of; 0 and 0 for [CLS], [SEP] and
                          padding. All tokens made of one character, or of one
                          word of more than 200 characters, have all its bytes.
                          With SentencePiece they are exact in valid UTF-8
    probability_replaced  float32 [B, L], by the discriminator at its
                          temperature, 0 for [CLS], [SEP] and padding
    is_flagged            bool [B, L], whether that is above the threshold
    top_tokens            string [B, L, 5], the generator's best tokens, with
                          only the flagged one masked; neither that one nor
                          special tokens; "" where no token is flagged
    top_probabilities     float32 [B, L, 5], of these, in descending order

Letters in shapes: B rows, L tokens in a row, R flagged tokens, V vocabulary.
"""

import dataclasses

import tensorflow as tf

from electra_tf.model import tensor_ops
from electra_tf.model.sentencepiece_model import SPECIAL_TOKENS
from electra_tf.model.text_reader import Ids
from electra_tf.serving.blocks import in_blocks
from electra_tf.serving.endpoints import Detector, MaskFiller
from electra_tf.serving.saved_models import Outputs, Signatures

NAME = "correction"
NUM_REPAIRS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Correction:
    """Flags tokens and suggests others in their place."""

    detector: Detector
    filler: MaskFiller
    threshold: float

    @property
    def signatures(self) -> Signatures:
        """The signature, of text alone."""
        return Signatures(
            of_text={"serving_default": self.correct},
            of_ids={},
            assets=self.detector.reader.assets,
            layers=[*self.detector.layers, *self.filler.layers],
        )

    def correct(self, text: tf.Tensor) -> Outputs:
        """Corrects texts, string [B]; see the module."""
        reader = self.detector.reader
        ids, starts, ends = reader.read_with_offsets(text)
        found = self.detector.probability_replaced(ids)
        found = tf.where(ends > starts, found, 0.0)
        is_flagged = found > self.threshold
        return {
            "tokens": reader.tokens(ids),
            "start_byte": starts,
            "end_byte": ends,
            "probability_replaced": found,
            "is_flagged": is_flagged,
            **self._repairs(ids, is_flagged),
        }

    def _repairs(self, ids: Ids, is_flagged: tf.Tensor) -> Outputs:
        """Returns the best tokens in place of those that are flagged."""
        places = tf.cast(tf.where(is_flagged), tf.int32)  # [R, 2]
        tokens = self.detector.reader.vocabulary.tokens
        count = min(NUM_REPAIRS, len(tokens) - len(SPECIAL_TOKENS) - 1)
        shape = tf.TensorShape([None, count])
        probabilities, words = in_blocks(
            tf.shape(places)[0],
            lambda rows: self._repair_block(ids, places[rows], count),
            [tf.TensorSpec(shape, x) for x in (tf.float32, tf.int32)],
        )
        shape = tf.concat([tf.shape(is_flagged), [count]], 0)
        return {
            "top_tokens": tf.scatter_nd(
                places, tf.gather(tokens, words), shape
            ),
            "top_probabilities": tf.scatter_nd(places, probabilities, shape),
        }

    def _repair_block(
        self, ids: Ids, places: tf.Tensor, count: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the best tokens at some places, float32 and int32 [R, 5]."""
        rows, columns = places[:, 0], places[:, 1]
        masked = {name: tf.gather(x, rows) for name, x in ids.items()}
        originals = tf.gather(masked["input_ids"], columns, batch_dims=1)
        length = tensor_ops.shape_of(masked["input_ids"])[1]
        is_masked = tf.range(length) == columns[:, tf.newaxis]  # [R, L]
        vocabulary = self.filler.reader.vocabulary
        masked["input_ids"] = tf.where(
            is_masked, vocabulary.mask_id, masked["input_ids"]
        )
        states = self.filler.encoder(**masked).sequence_output
        states = tf.gather(states, columns, batch_dims=1)  # [R, H]
        probabilities = tf.nn.softmax(self.filler.score(states))
        probabilities = probabilities[:, : vocabulary.size]  # [R, V]
        specials = [vocabulary.ids[token] for token in SPECIAL_TOKENS]
        penalty = tf.one_hot(originals, vocabulary.size)
        penalty += tf.reduce_sum(tf.one_hot(specials, vocabulary.size), 0)
        found = tf.math.top_k(probabilities - penalty, count)
        return found.values, found.indices
