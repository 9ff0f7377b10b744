"""Masked language modelling: BERT's objective, the baseline in the same code.

    loss = mean over masked slots of -log p(x_t | masked x)

One encoder with the discriminator's size predicts the tokens itself. What a
chosen position shows is set by `mask_token_prob` and `random_token_prob`: the
original's 85/15/0 by default, BERT's with 0.8 and 0.1.

Source: paper section 3.4 (BERT); the original with `electra_objective` false.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.modeling import BertModel, ElectraGenerator
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.metrics import masked_lm_size, masked_lm_terms
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.pretraining_model import PretrainingModel, Terms
from electra_tf.pretrain.random_keys import Keys, Purpose, dropout_keys


class Prediction(NamedTuple):
    """Everything a forward pass computes.

    Attributes:
      masked: what the encoder saw.
      mlm_logits: float32 [B, N, V].
    """

    masked: Masked
    mlm_logits: tf.Tensor


class MaskedLanguageModel(PretrainingModel):
    """Trains one encoder to fill in masks.

    Args:
      config: the whole configuration.
      vocabulary: of the data.
    """

    def __init__(
        self, config: PretrainingConfig, vocabulary: Vocabulary
    ) -> None:
        super().__init__(config, vocabulary)
        self.loss_weights = {"masked_lm_loss": config.objective.gen_weight}
        bert = config.model.discriminator(vocabulary.size)
        self.electra = BertModel(
            bert, is_packed=config.corpus.is_packed, dtype=self.policy
        )
        self.electra.build((None, None))
        self.generator_model = ElectraGenerator(bert, encoder=self.electra)
        self.generator_predictions = self.generator_model.head
        self.built = True

    def forward(
        self, inputs: Inputs, *, keys: Keys, training: bool
    ) -> Prediction:
        """Masks and predicts.

        Args:
          inputs: a batch.
          keys: one random key a row, or draws.
          training: whether dropout is on.

        Returns:
          The forward pass.
        """
        masked = pretrain_helpers.mask(
            inputs, self.config.masking, vocabulary=self.vocabulary, keys=keys
        )
        outputs = self.generator_model(
            masked.inputs._asdict() | {"positions": masked.positions},
            keys=dropout_keys(keys, Purpose.GENERATOR_DROPOUT, training),
        )
        return Prediction(masked, outputs["logits"])

    def loss_sizes(self, inputs: Inputs, *, keys: Keys) -> dict[str, tf.Tensor]:
        return {"masked_lm_loss": masked_lm_size(self, inputs, keys)}

    def compute_losses(
        self, inputs: Inputs, *, keys: Keys, training: bool
    ) -> Terms:
        prediction = self.forward(inputs, keys=keys, training=training)
        return masked_lm_terms(prediction.mlm_logits, prediction.masked)
