"""ELECTRA, and a question about the whole row, answered at [CLS].

    loss = ELECTRA's
         + sentence_weight * mean over rows of BCE(w' h_[CLS] + c, a)

`sentence_loss` says what a is:

sentence_order: 1 where the row's two segments were swapped, one row in two.

next_sentence: 1 where its second segment is that of the neighbouring row, one
row in two (`sentences.exchange_segments`).

any_replaced: 1 where the corrupted row differs from the data. Of the rows
`uncorrupted_share` are given to the discriminator as they are, with all tokens
real; the generator learns from them as from the others.

What was rearranged is what generator and discriminator read and learn from.
Rows without a second segment have no part in the first two.

The paper tried the third and found slightly lower scores; it does not say with
which weight, and whether detection learns from clean rows: it does here.

Source: paper appendix H (any_replaced); `sentences` for the others.
"""

import math
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import layers
from electra_tf.pretrain.corruption import Corruption, FakeData
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.pretraining_model import Detection, Terms
from electra_tf.pretrain.random_keys import Keys, Purpose, dropout_keys
from electra_tf.pretrain.sentences import (
    Arranged,
    arrange,
    check_rows,
    rows_together,
    sentence_terms,
)


class Prediction(NamedTuple):
    """Everything a forward pass computes.

    Attributes:
      masked: what the generator saw.
      mlm_logits: float32 [B, N, V], of the generator.
      fake: what the discriminator saw, and the truth about it.
      disc_logits: float32 [B, L]; over 0 means "replaced".
      row: the rows as they were asked about, and the answers.
      sentence_logits: float32 [B].
    """

    masked: Masked
    mlm_logits: tf.Tensor
    fake: FakeData
    disc_logits: tf.Tensor
    row: Arranged
    sentence_logits: tf.Tensor

    @property
    def inputs(self) -> Inputs:
        """The rows before they were corrupted."""
        return self.row.inputs


class ElectraSentence(Electra):
    """Trains a generator, and a discriminator that judges rows too.

    Args:
      config: the whole configuration.
      vocabulary: of the data.
    """

    shares_encoder = True

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        check_rows(config)

    @classmethod
    def rows_together(cls, config: PretrainingConfig) -> int:
        return rows_together(config.sentence)

    def _build_head(self, bert: BertConfig) -> None:
        super()._build_head(bert)
        self.loss_weights["sentence_loss"] = (
            self.config.sentence.sentence_weight
        )
        self.sentence_predictions = layers.Linear(
            1, bert.initializer_range, name="sentence_predictions"
        )
        self.sentence_predictions.build((None, bert.hidden_size))

    def forward(
        self, inputs: Inputs, *, keys: Keys, training: bool
    ) -> Prediction:
        """Rearranges, masks, samples and judges.

        Args:
          inputs: a batch.
          keys: one random key a row, or draws.
          training: whether dropout is on.

        Returns:
          The forward pass.
        """
        row = self._arrange(inputs, keys)
        made = self.corrupt(row.inputs, keys=keys, training=training)
        if self.config.sentence.sentence_loss == "any_replaced":
            made, row = self._leave_clean(made, row)
        output = self.electra(
            *made.fake.inputs,
            keys=dropout_keys(keys, Purpose.DISCRIMINATOR_DROPOUT, training),
        )
        return Prediction(
            *made[:3],
            self.discriminator_predictions(output.sequence_output),
            row,
            self.sentence_predictions(output.pooled_output)[:, 0],
        )

    def _leave_clean(
        self, made: Corruption, row: Arranged
    ) -> tuple[Corruption, Arranged]:
        """Takes the corruption of chosen rows back; labels what is left."""
        is_clean = row.labels[:, tf.newaxis] > 0
        fake, ids = made.fake, row.inputs.input_ids
        ids = tf.where(is_clean, ids, fake.inputs.input_ids)
        is_fake = tf.where(is_clean, 0, fake.is_fake_tokens)
        fake = fake._replace(
            inputs=fake.inputs._replace(input_ids=ids), is_fake_tokens=is_fake
        )
        labels = tf.reduce_max(is_fake, -1)
        return made._replace(fake=fake), row._replace(labels=labels)

    def _arrange(self, inputs: Inputs, keys: Keys) -> Arranged:
        return arrange(inputs, self.config.sentence, self.vocabulary, keys)

    def guesses(self) -> dict[str, float]:
        return {"sentence_loss": math.log(2)}

    def loss_sizes(self, inputs: Inputs, *, keys: Keys) -> dict[str, tf.Tensor]:
        row = self._arrange(inputs, keys)
        sizes = super().loss_sizes(row.inputs, keys=keys)
        return {**sizes, "sentence_loss": tf.reduce_sum(row.weights)}

    def evaluation_step(
        self, inputs: Inputs, *, keys: Keys
    ) -> tuple[Terms, Detection]:
        prediction = self.forward(inputs, keys=keys, training=False)
        judged = self._judged(prediction.inputs, prediction.masked)
        return self._terms(inputs, prediction), Detection(
            prediction.disc_logits,
            prediction.fake.is_fake_tokens,
            tf.cast(judged, tf.int32),
        )

    def _terms(self, inputs: Inputs, prediction: Prediction) -> Terms:
        row = prediction.row
        return {
            **super()._terms(row.inputs, prediction),
            **sentence_terms(
                prediction.sentence_logits, row.labels, row.weights
            ),
        }
