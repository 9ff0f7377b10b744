"""Masked language modelling: BERT's objective, the baseline in the same code.

    loss = mean over masked slots of -log p(x_t | masked x)

One encoder with the discriminator's size predicts the tokens itself. What a
chosen position shows is set by `mask_token_prob` and `random_token_prob`: the
original's 85/15/0 by default, BERT's with 0.8 and 0.1.

Source: paper section 3.4 (BERT); the original with `electra_objective` false.
"""

import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import heads, tensor_ops
from electra_tf.model.modeling import BertModel
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.objectives.electra import (
    masked_lm_size,
    masked_lm_terms,
)
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Purpose
from electra_tf.pretrain.pretraining_model import PretrainingModel, Terms
from electra_tf.util import seeds


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
        self.loss_weights = {"masked_lm_loss": 1.0}
        bert = config.model.discriminator(vocabulary.size)
        self.electra = BertModel(bert, name="electra")
        self.electra.build((None, None))
        self.generator_predictions = heads.GeneratorPredictions(
            bert.embedding_size, bert.vocab_size, bert.initializer_range
        )
        self.generator_predictions.build((None, None, bert.hidden_size))
        self.built = True

    def loss_sizes(
        self, inputs: Inputs, *, keys: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return {"masked_lm_loss": masked_lm_size(self, inputs, keys)}

    def compute_losses(
        self, inputs: Inputs, *, keys: tf.Tensor, training: bool
    ) -> Terms:
        masked = pretrain_helpers.mask(
            inputs, self.config.masking, vocabulary=self.vocabulary, keys=keys
        )
        dropout_keys = None
        if training:
            dropout_keys = seeds.fold_in(keys, Purpose.GENERATOR_DROPOUT)
        states = self.electra(*masked.inputs, keys=dropout_keys)
        states = tensor_ops.gather_positions(
            states.sequence_output, masked.positions
        )
        table = tf.convert_to_tensor(self.electra.embeddings.word_embeddings)
        logits = self.generator_predictions(states, table)
        return masked_lm_terms(logits, masked)
