"""Masked language modelling with a question about the row: BERT, or ALBERT's.

    loss = gen_weight * mean over masked slots of -log p(x_t | masked x)
         + sentence_weight * mean over rows of BCE(w' h_[CLS] + c, a)

a is what `sentence_loss` says: next_sentence for BERT's objective,
sentence_order for ALBERT's. The rows are those of `electra_sentence`.

Differs: BERT has a dense layer with tanh between [CLS] and the answer.

Source: Devlin et al., 2019, "BERT"; Lan et al., 2020, "ALBERT".
"""

import math
from typing import NamedTuple

import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import layers, tensor_ops
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.metrics import masked_lm_size, masked_lm_terms
from electra_tf.pretrain.objectives.mlm import MaskedLanguageModel
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.pretraining_model import Terms
from electra_tf.pretrain.random_keys import Keys, Purpose, dropout_keys
from electra_tf.pretrain.sentences import (
    Arranged,
    arrange,
    check_rows,
    rows_together,
    sentence_terms,
)
from electra_tf.util.errors import UserError


class Prediction(NamedTuple):
    """Everything a forward pass computes.

    Attributes:
      masked: what the encoder saw.
      mlm_logits: float32 [B, N, V].
      row: the rows as they were asked about, and the answers.
      sentence_logits: float32 [B].
    """

    masked: Masked
    mlm_logits: tf.Tensor
    row: Arranged
    sentence_logits: tf.Tensor


class MlmSentence(MaskedLanguageModel):
    """Trains one encoder to fill in masks and to judge rows.

    Args:
      config: the whole configuration.
      vocabulary: of the data.
    """

    def __init__(
        self, config: PretrainingConfig, vocabulary: Vocabulary
    ) -> None:
        super().__init__(config, vocabulary)
        self.loss_weights["sentence_loss"] = config.sentence.sentence_weight
        bert = self.electra.config
        self.sentence_predictions = layers.Linear(
            1, bert.initializer_range, name="sentence_predictions"
        )
        self.sentence_predictions.build((None, bert.hidden_size))

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        check_rows(config)
        if config.sentence.sentence_loss == "any_replaced":
            raise UserError(
                "`sentence_loss` must be sentence_order or next_sentence with "
                "objective=mlm_sentence, which replaces nothing. Received: "
                "sentence_loss=any_replaced."
            )

    @classmethod
    def rows_together(cls, config: PretrainingConfig) -> int:
        return rows_together(config.sentence)

    def forward(
        self, inputs: Inputs, *, keys: Keys, training: bool
    ) -> Prediction:
        """Rearranges, masks and predicts.

        Args:
          inputs: a batch.
          keys: one random key a row, or draws.
          training: whether dropout is on.

        Returns:
          The forward pass.
        """
        row = self._arrange(inputs, keys)
        masked = pretrain_helpers.mask(
            row.inputs,
            self.config.masking,
            vocabulary=self.vocabulary,
            keys=keys,
        )
        output = self.electra(
            *masked.inputs,
            keys=dropout_keys(keys, Purpose.GENERATOR_DROPOUT, training),
        )
        states = tensor_ops.gather_positions(
            output.sequence_output, masked.positions
        )
        table = tf.convert_to_tensor(self.electra.embeddings.word_embeddings)
        return Prediction(
            masked,
            self.generator_predictions(states, table),
            row,
            self.sentence_predictions(output.pooled_output)[:, 0],
        )

    def _arrange(self, inputs: Inputs, keys: Keys) -> Arranged:
        return arrange(inputs, self.config.sentence, self.vocabulary, keys)

    def guesses(self) -> dict[str, float]:
        return {"sentence_loss": math.log(2)}

    def loss_sizes(self, inputs: Inputs, *, keys: Keys) -> dict[str, tf.Tensor]:
        row = self._arrange(inputs, keys)
        return {
            "masked_lm_loss": masked_lm_size(self, row.inputs, keys),
            "sentence_loss": tf.reduce_sum(row.weights),
        }

    def compute_losses(
        self, inputs: Inputs, *, keys: Keys, training: bool
    ) -> Terms:
        out = self.forward(inputs, keys=keys, training=training)
        return {
            **masked_lm_terms(out.mlm_logits, out.masked),
            **sentence_terms(
                out.sentence_logits, out.row.labels, out.row.weights
            ),
        }
