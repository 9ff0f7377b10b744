"""The losses and metrics of generators and discriminators, as terms."""

import tensorflow as tf

from electra_tf.model import losses
from electra_tf.model.heads import Cloze
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.pretraining_model import PretrainingModel, Terms
from electra_tf.pretrain.random_keys import Keys


def cloze_terms(cloze: Cloze, ids: tf.Tensor, weights: tf.Tensor) -> Terms:
    """Computes the loss and the accuracy of two towers.

    Args:
      cloze: their distributions.
      ids: int32 [B, L], the truth.
      weights: float32 [B, L], 1 on the tokens that they learn from.

    Returns:
      `cloze_loss` (nats) and `cloze_accuracy`.
    """
    return {
        "cloze_loss": losses.weighted(-cloze.log_probs(ids), weights),
        "cloze_accuracy": losses.weighted(cloze.partition.best == ids, weights),
    }


def masked_lm_size(
    model: PretrainingModel, inputs: Inputs, keys: Keys
) -> tf.Tensor:
    """Counts the tokens that `mask` chooses.

    Args:
      model: knows the masking.
      inputs: a batch.
      keys: one random key a row, or draws.

    Returns:
      float32 scalar.
    """
    masked = pretrain_helpers.mask(
        inputs, model.config.masking, vocabulary=model.vocabulary, keys=keys
    )
    return tf.reduce_sum(masked.weights)


def masked_lm_terms(logits: tf.Tensor, masked: Masked) -> Terms:
    """Computes the loss and the accuracy at the masked positions.

    Args:
      logits: float32 [B, N, V].
      masked: the truth.

    Returns:
      `masked_lm_loss` (nats) and `masked_lm_accuracy`.
    """
    loss = losses.softmax_cross_entropy(logits, masked.ids)
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return {
        "masked_lm_loss": losses.weighted(loss, masked.weights),
        "masked_lm_accuracy": losses.weighted(
            best == masked.ids, masked.weights
        ),
    }


def discriminator_terms(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> Terms:
    """Computes the loss and the counts over real tokens.

    Args:
      logits: float32 [B, L]; over 0 means "replaced".
      labels: int32 [B, L], 1 where replaced.
      weights: float32 [B, L], 0 on padding.

    Returns:
      `disc_loss` (nats), `disc_accuracy`, `disc_precision` and `disc_recall`
      of the replaced class, and `replaced_share`.
    """
    flagged = tf.cast(logits > 0, tf.float32)
    fakes = tf.cast(labels, tf.float32)
    return {
        "disc_loss": losses.weighted(
            losses.sigmoid_cross_entropy(logits, labels), weights
        ),
        "disc_accuracy": losses.weighted(flagged == fakes, weights),
        "disc_precision": losses.weighted(fakes, weights * flagged),
        "disc_recall": losses.weighted(flagged, weights * fakes),
        "replaced_share": losses.weighted(fakes, weights),
    }
