"""Records of a forward pass, and the losses and metrics computed from them.

Letters in shapes: B rows, L tokens in a row, N masked slots, V vocabulary.
"""

import dataclasses
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from electra_tf.model import losses
from electra_tf.model.heads import TokenDistribution
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.training.updates import Metrics


class Loss(NamedTuple):
    """A loss as an objective declares it.

    Attributes:
      weight: its factor in the total loss.
      chance: its value while all networks predict at random, nats.
      over: the key of `PretrainingModel.counts` that it is a mean over.
    """

    weight: float
    chance: float
    over: str


class FakeData(NamedTuple):
    """The corrupted inputs: a batch with samples in the masked positions.

    Attributes:
      inputs: the batch with samples.
      is_fake_tokens: int32 [B, L], 1 where the token counts as replaced.
      sampled_ids: int32 [B, N], the sample for each slot.
    """

    inputs: Inputs
    is_fake_tokens: tf.Tensor
    sampled_ids: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForwardPass:
    """Record of a forward pass; objectives add fields of their own.

    Attributes:
      inputs: the batch, as the objective rearranged it.
      masked: the masked batch, the input of the generator.
      mlm_logits: float32 [B, N, V], logits of the generator.
      fake: the corrupted batch, the input of the main encoder, and its labels;
        None where nothing is replaced.
      cloze: predictions of two towers; None for other generators.
      disc_logits: float32 [B, L]; over 0 means "replaced". None without
        verdicts.
    """

    inputs: Inputs
    masked: Masked
    mlm_logits: tf.Tensor
    fake: FakeData | None = None
    cloze: TokenDistribution | None = None
    disc_logits: tf.Tensor | None = None

    def extended(self, record: type["Subclass"], **fields: Any) -> "Subclass":  # noqa: ANN401 (of any record)
        """Returns a record of a subclass with these fields and others.

        Args:
          record: the subclass.
          **fields: fields to add or to replace.
        """
        return record(**{**vars(self), **fields})


Subclass = TypeVar("Subclass", bound=ForwardPass)


def softmax_metrics(
    name: str, logits: tf.Tensor, ids: tf.Tensor, weights: tf.Tensor
) -> Metrics:
    """Computes the loss and the accuracy of a softmax.

    Args:
      name: prefix of the metrics' names.
      logits: float32 [..., V].
      ids: int32 [...], the correct ones.
      weights: float32 [...].

    Returns:
      `<name>_loss` (nats) and `<name>_accuracy`.
    """
    loss = losses.softmax_cross_entropy(logits, ids)
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return {
        f"{name}_loss": losses.weighted(loss, weights),
        f"{name}_accuracy": losses.weighted(best == ids, weights),
    }


def cloze_metrics(
    cloze: TokenDistribution, ids: tf.Tensor, weights: tf.Tensor
) -> Metrics:
    """Computes the loss and the accuracy of two towers.

    Args:
      cloze: their distributions.
      ids: int32 [B, L], the correct ids.
      weights: float32 [B, L], 1 on the tokens that they learn from.

    Returns:
      `cloze_loss` (nats) and `cloze_accuracy`.
    """
    return {
        "cloze_loss": losses.weighted(-cloze.log_probs(ids), weights),
        "cloze_accuracy": losses.weighted(cloze.partition.best == ids, weights),
    }


def discriminator_metrics(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> Metrics:
    """Computes the discriminator's loss and metrics over real tokens.

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
