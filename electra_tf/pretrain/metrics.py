"""Records of a forward pass, and the losses and metrics computed from them.

Letters in shapes: B rows, L tokens in a row, N masked slots, V vocabulary.
"""

import types
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.model import losses
from electra_tf.model.heads import TokenDistribution
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.training.updates import Metrics


class Loss(NamedTuple):
    """A loss as an objective declares it."""

    weight: float
    chance: float
    over: str


class FakeData(NamedTuple):
    """The corrupted inputs: a batch with samples in the masked positions."""

    inputs: Inputs
    is_fake_tokens: tf.Tensor  # [B, L]
    sampled_ids: tf.Tensor  # [B, N]


class ForwardPass(types.SimpleNamespace):
    """Record of a forward pass; objectives add fields of their own."""

    inputs: Inputs
    masked: Masked
    mlm_logits: tf.Tensor  # [B, N, V]
    fake: FakeData | None = None
    cloze: TokenDistribution | None = None
    disc_logits: tf.Tensor | None = None  # [B, L]

    def extended(self, **fields: Any) -> "ForwardPass":  # noqa: ANN401
        """Returns a copy with other or further fields."""
        return ForwardPass(**{**vars(self), **fields})


def softmax_metrics(
    name: str, logits: tf.Tensor, ids: tf.Tensor, weights: tf.Tensor
) -> Metrics:
    loss = losses.softmax_cross_entropy(logits, ids)
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return {
        f"{name}_loss": losses.weighted(loss, weights),
        f"{name}_accuracy": losses.weighted(best == ids, weights),
    }


def discriminator_metrics(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> Metrics:
    """Computes the discriminator's loss and metrics, of tensors [B, L]."""
    flagged = tf.cast(logits > 0, tf.float32)
    fakes = tf.cast(labels, tf.float32)
    loss = losses.sigmoid_cross_entropy(logits, labels)
    return {
        "disc_loss": losses.weighted(loss, weights),
        "disc_accuracy": losses.weighted(flagged == fakes, weights),
        "disc_precision": losses.weighted(fakes, weights * flagged),
        "disc_recall": losses.weighted(flagged, weights * fakes),
        "replaced_share": losses.weighted(fakes, weights),
    }
