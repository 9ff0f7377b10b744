"""ELECTRA, plus a binary classification of the whole row at [CLS].

    loss = ELECTRA's
         + mean over rows of BCE(w' h_[CLS] + c, a)

`sentence_loss` selects a:

sentence_order: 1 where the row's two segments were swapped, in half of the
rows.

next_sentence: 1 where the second segment comes from the neighbouring row, in
half of the rows (`sentences.exchange_segments`).

any_replaced: 1 where the corrupted row differs from the data. The discriminator
reads a share of `uncorrupted_share` of the rows as they are, with all tokens
real; the generator learns from them as from the others.

Generator and discriminator read and learn from the rearranged rows. Rows
without a second segment do not count in the first two losses.

The paper tried the third and found slightly lower scores; it states neither the
weight nor if detection learns from clean rows. Here it does.

Source: paper appendix H (any_replaced); `sentences` for the others.
"""

import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.pretrain.metrics import ForwardPass, Loss
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.random_keys import RandomKeys
from electra_tf.pretrain.sentences import Rearranged, SentenceModel


class ElectraSentence(SentenceModel, Electra):
    """Trains a generator, and a discriminator that judges rows too."""

    generator_types = SentenceModel.generator_types
    can_freeze = False

    def declare_main_losses(self) -> dict[str, Loss]:
        return super().declare_main_losses() | self.declare_sentence_loss()

    def _build_head(self, bert: BertConfig) -> None:
        super()._build_head(bert)
        self.build_sentence_head(bert)

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Rearranges, masks, samples and judges."""
        rearranged = self.rearrange(inputs, keys)
        corrupted = self.corrupt(
            rearranged.inputs, keys=keys, training=training
        )
        if self.config.objective.sentence_loss == "any_replaced":
            corrupted, rearranged = self._restore_clean_rows(
                corrupted, rearranged
            )
        inner = self.main_dropout(keys, training)
        output = self.electra(*corrupted.fake.inputs, keys=inner)
        return corrupted.extended(
            disc_logits=self.discriminator_predictions(output.sequence_output),
            rearranged=rearranged,
            sentence_logits=self.sentence_predictions(output.pooled_output)[
                :, 0
            ],
        )

    def _restore_clean_rows(
        self, corrupted: ForwardPass, rearranged: Rearranged
    ) -> tuple[ForwardPass, Rearranged]:
        """Undoes the corruption of chosen rows; labels the corrupted rows."""
        is_clean = rearranged.labels[:, tf.newaxis] > 0
        fake, ids = corrupted.fake, rearranged.inputs.input_ids
        ids = tf.where(is_clean, ids, fake.inputs.input_ids)
        is_fake = tf.where(is_clean, 0, fake.is_fake_tokens)
        fake = fake._replace(
            inputs=fake.inputs._replace(input_ids=ids), is_fake_tokens=is_fake
        )
        labels = tf.reduce_max(is_fake, -1)
        corrupted = corrupted.extended(fake=fake)
        return corrupted, rearranged._replace(labels=labels)
