"""Sentence-level objectives: is the second segment of a row the right one?

A row is [CLS] A [SEP] B [SEP]. Rows without B are left as they are and do not
count. Packed rows, of several documents, are refused.

Letters in shapes: B rows, L tokens in a row.
"""

import math
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import layers, losses, tensor_ops
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.metrics import ForwardPass, Loss
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Metrics, PretrainingModel
from electra_tf.pretrain.random_keys import Purpose, RandomKeys, draw


class Rearranged(NamedTuple):
    """A batch with some rows changed, and their labels.

    Shapes: labels [B], weights [B].
    """

    inputs: Inputs
    labels: tf.Tensor
    weights: tf.Tensor


class SentenceModel(PretrainingModel):
    """Base class of objectives that judge rows at [CLS]."""

    has_row_loss = True

    @classmethod
    def batch_group_size(cls, config: PretrainingConfig) -> int:
        return 2 if config.objective.sentence_loss == "next_sentence" else 1

    def declare_sentence_loss(self) -> dict[str, Loss]:
        """Returns the loss of the sentence-level predictions, by name."""
        return {"sentence_loss": Loss(1.0, math.log(2), over="rows")}

    def build_sentence_head(self, bert: BertConfig) -> None:
        """Makes the layer that classifies rows."""
        self.sentence_predictions = layers.Linear(
            1, bert.initializer_range, name="sentence_predictions"
        )
        self.sentence_predictions.build((None, bert.hidden_size))

    def rearrange(self, inputs: Inputs, keys: RandomKeys) -> Rearranged:
        """Rearranges some rows, as `sentence_loss` says."""
        config = self.config.objective
        where = draw(keys, Purpose.SENTENCE, ())  # [B]
        if config.sentence_loss == "sentence_order":
            return swap_segments(inputs, where < 0.5, self.vocabulary)
        if config.sentence_loss == "next_sentence":
            return exchange_segments(inputs, where < 0.5, self.vocabulary)
        is_clean = tf.cast(where < config.uncorrupted_share, tf.int32)
        is_text = tf.reduce_any(inputs.is_real, -1)
        return Rearranged(inputs, is_clean, tf.cast(is_text, tf.float32))

    def counts(self, inputs: Inputs, keys: RandomKeys) -> dict[str, tf.Tensor]:
        rearranged = self.rearrange(inputs, keys)
        counts = super().counts(rearranged.inputs, keys)
        return {**counts, "rows": tf.reduce_sum(rearranged.weights)}

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        logits = forward_pass.sentence_logits
        _, labels, weights = forward_pass.rearranged
        loss = losses.sigmoid_cross_entropy(logits, labels)
        is_right = tf.cast(logits > 0, tf.int32) == labels
        return {
            **super().measure(forward_pass),
            "sentence_loss": losses.weighted(loss, weights),
            "sentence_accuracy": losses.weighted(is_right, weights),
        }


def swap_segments(
    inputs: Inputs, is_chosen: tf.Tensor, vocabulary: Vocabulary
) -> Rearranged:
    """Turns the chosen rows into [CLS] B [SEP] A [SEP].

    Source: Lan et al., 2020, "ALBERT" (sentence-order prediction).
    """
    size_a, size_b, places = _sizes(inputs)
    has_both = (size_a > 0) & (size_b > 0)  # [B, 1]
    is_swapped = has_both & is_chosen[:, tf.newaxis]
    start_b = 2 + size_a  # [CLS] A [SEP]
    source = tf.where(
        places <= size_b, places - 1 + start_b, places - 1 - size_b
    )
    is_separator = (places == 1 + size_b) | (places == 2 + size_a + size_b)
    ids = _gather(inputs.input_ids, source)
    ids = tf.where(is_separator, vocabulary.sep_id, ids)
    is_changed = is_swapped & (places > 0) & inputs.is_real
    segments = tf.cast(places > 1 + size_b, tf.int32)
    swapped = inputs._replace(
        input_ids=tf.where(is_changed, ids, inputs.input_ids),
        segment_ids=tf.where(is_changed, segments, inputs.segment_ids),
    )
    return _rearranged(swapped, is_swapped, has_both)


def exchange_segments(
    inputs: Inputs, is_chosen: tf.Tensor, vocabulary: Vocabulary
) -> Rearranged:
    """Gives the chosen rows, bool [B], the second segment of their neighbour.

    Differs: in BERT the other segment comes from any document of the corpus.
    Which of the two segments was not cut may reveal the label, as it may in
    BERT.

    Source: Devlin et al., 2019, "BERT" (next sentence prediction).
    """
    size_a, size_b, places = _sizes(inputs)
    size = tf.minimum(size_b, _neighbour(size_b))
    has_both = (size > 0) & (size_a > 0)  # [B, 1]
    is_other = has_both & is_chosen[:, tf.newaxis]
    start = 2 + size_a
    source_start = tf.where(is_other, _neighbour(start), start)
    source = tf.where(is_other, _neighbour(inputs.input_ids), inputs.input_ids)
    ids = _gather(source, places - start + source_start)
    ids = tf.where(places == start + size, vocabulary.sep_id, ids)
    is_real = places <= start + size
    is_second = has_both & (places >= start)

    def put(new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
        return tf.where(is_second, tf.where(is_real, new, 0), old)

    exchanged = map(put, (ids, inputs.input_mask, inputs.segment_ids), inputs)
    return _rearranged(Inputs(*exchanged), is_other, has_both)


def _sizes(inputs: Inputs) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the tokens in A and in B, int32 [B, 1], and positions, [1, L]."""
    is_real = tf.cast(inputs.is_real, tf.int32)
    num_tokens = tf.reduce_sum(is_real, -1, keepdims=True)
    with_end = tf.reduce_sum(inputs.segment_ids, -1, keepdims=True)
    length = tensor_ops.shape_of(inputs.input_ids)[1]
    return num_tokens - with_end - 2, with_end - 1, tf.range(length)[tf.newaxis]


def _gather(x: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    last = tensor_ops.shape_of(x)[1] - 1
    return tensor_ops.gather_positions(x, tf.clip_by_value(places, 0, last))


def _neighbour(x: tf.Tensor) -> tf.Tensor:
    """Exchanges rows 0 and 1, 2 and 3 ...; a last, single row gets zeros."""
    order = tf.bitwise.bitwise_xor(tf.range(tensor_ops.shape_of(x)[0]), 1)
    return tf.gather(tf.concat([x, tf.zeros_like(x[:1])], 0), order)


def _rearranged(
    inputs: Inputs, labels: tf.Tensor, weights: tf.Tensor
) -> Rearranged:
    """Converts bool [B, 1] to int32 [B] and float32 [B]."""
    labels = tf.cast(labels[:, 0], tf.int32)
    return Rearranged(inputs, labels, tf.cast(weights[:, 0], tf.float32))
