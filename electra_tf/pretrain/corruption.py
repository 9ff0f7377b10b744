"""The records of what a generator makes of a batch, and of the verdicts on it.

Letters in shapes: B rows, L tokens in a row, N masked slots, V vocabulary.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.model.heads import Cloze
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked


class FakeData(NamedTuple):
    """What the generator made of a batch.

    Attributes:
      inputs: the batch with samples in the masked positions.
      is_fake_tokens: int32 [B, L], 1 where the token counts as replaced.
      sampled_ids: int32 [B, N], the sample for each slot.
    """

    inputs: Inputs
    is_fake_tokens: tf.Tensor
    sampled_ids: tf.Tensor


class Corruption(NamedTuple):
    """What the generator did to a batch, and why.

    Attributes:
      masked: what the generator saw.
      mlm_logits: float32 [B, N, V], of the generator.
      fake: what it made.
      cloze: what two towers predict; None for other generators.
    """

    masked: Masked
    mlm_logits: tf.Tensor
    fake: FakeData
    cloze: Cloze | None = None


class Prediction(NamedTuple):
    """Everything a forward pass computes.

    Attributes:
      masked: what the generator saw.
      mlm_logits: float32 [B, N, V], of the generator.
      fake: what the discriminator saw, and the truth about it.
      disc_logits: float32 [B, L]; over 0 means "replaced".
      cloze: what two towers predict; None for other generators.
    """

    masked: Masked
    mlm_logits: tf.Tensor
    fake: FakeData
    disc_logits: tf.Tensor
    cloze: Cloze | None = None
