"""Scores of label words in context, by each kind of network.

    discriminator   -logit of "replaced", mean over the word's tokens, in the
                    text with the word in place; for Electric, -energy
    mlm             log p, mean over the word's tokens, in the text with all of
                    them masked, nats

Letters in shapes: B rows, L tokens in a row, N tokens of a label word.

Source: Ni and Kao, 2022 (discriminator).
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf.analysis import batches
from electra_tf.analysis.batches import padded
from electra_tf.analysis.loaded_networks import MLM, kind_of
from electra_tf.analysis.prompts.prompt_rows import PromptRow
from electra_tf.model import tensor_ops
from electra_tf.model.networks import ElectraDiscriminator, ElectraGenerator


class NetworkScorer:
    """Scores label words by a network."""

    def __init__(
        self, network: ElectraDiscriminator | ElectraGenerator, batch_size: int
    ) -> None:
        self.reader = network.reader
        self._network = network
        self._batch_size = batch_size
        score_tokens = _log_probs if kind_of(network) == MLM else _minus_logits
        # Concrete, as TensorFlow would warn of retracing for many checkpoints.
        self._forward = tf.function(
            lambda *ids: score_tokens(network, *ids),
            input_signature=[batches.ROWS_SPEC] * 3,
            autograph=False,
        ).get_concrete_function()

    def score(self, rows: Sequence[PromptRow]) -> np.ndarray:
        """Returns the fit of label words, float64 [rows]; higher is better."""
        scores = np.empty(len(rows))
        lengths = [len(row.ids) for row in rows]
        for batch in batches.by_length(lengths, self._batch_size):
            scores[batch] = self._score_batch([rows[i] for i in batch])
        return scores

    def _score_batch(self, rows: Sequence[PromptRow]) -> np.ndarray:
        ids = padded([row.ids for row in rows])
        positions = padded([row.positions for row in rows])
        weights = padded([[1] * len(row.positions) for row in rows])
        inputs = map(tf.constant, (ids, positions, weights))
        found = self._forward(*inputs).numpy()
        found = np.where(weights > 0, found, 0).astype(np.float64)
        return found.sum(1) / weights.sum(1)


def _minus_logits(
    network: ElectraDiscriminator,
    ids: tf.Tensor,
    positions: tf.Tensor,
    weights: tf.Tensor,
) -> tf.Tensor:
    """Computes -logit at positions, float32 [B, N]."""
    del weights
    logits = network({"input_ids": ids})["logits"]
    return -tf.gather(logits, positions, batch_dims=1)


def _log_probs(
    network: ElectraGenerator,
    ids: tf.Tensor,
    positions: tf.Tensor,
    weights: tf.Tensor,
) -> tf.Tensor:
    """Computes log p of the tokens at positions, masked, float32 [B, N]."""
    tokens = tf.gather(ids, positions, batch_dims=1)  # [B, N]
    length = tensor_ops.shape_of(ids)[1]
    one_hot = tf.one_hot(positions, length, dtype=tf.int32)  # [B, N, L]
    is_masked = tf.reduce_max(one_hot * weights[:, :, None], 1) > 0  # [B, L]
    masked = tf.where(is_masked, network.vocabulary.mask_id, ids)
    inputs = {"input_ids": masked, "positions": positions}
    logits = tf.cast(network(inputs)["logits"], tf.float32)  # [B, N, V]
    log_probs = tf.nn.log_softmax(logits)
    return tf.gather(log_probs, tokens, batch_dims=2)
