"""Masked language modelling plus a classification of rows: BERT or ALBERT.

    loss = gen_weight * mean over masked slots of -log p(x_t | masked x)
         + mean over rows of BCE(w' h_[CLS] + c, a)

`sentence_loss` selects a: next_sentence for BERT's objective, sentence_order
for ALBERT's. Rows are rearranged as in `electra_sentence`.

Differs: BERT has a dense layer with tanh between [CLS] and the classifier.

Source: Devlin et al., 2019, "BERT"; Lan et al., 2020, "ALBERT".
"""

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.pretrain.metrics import ForwardPass, Loss
from electra_tf.pretrain.objectives.mlm import MaskedLanguageModel
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.random_keys import RandomKeys
from electra_tf.pretrain.sentences import SentenceModel
from electra_tf.util.errors import UserError


class MlmSentence(SentenceModel, MaskedLanguageModel):
    """Trains one encoder to fill in masks and to judge rows."""

    def build_networks(self, bert: BertConfig) -> None:
        super().build_networks(bert)
        self.build_sentence_head(bert)

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        super().check(config)
        if config.objective.sentence_loss == "any_replaced":
            raise UserError("objective=mlm_sentence replaces no tokens.")

    def declare_losses(self) -> dict[str, Loss]:
        return super().declare_losses() | self.declare_sentence_loss()

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Rearranges, masks and predicts."""
        rearranged = self.rearrange(inputs, keys)
        filled = super().forward(
            rearranged.inputs, keys=keys, training=training
        )
        logits = self.sentence_predictions(filled.cls_state)[:, 0]  # [B]
        return filled.extended(rearranged=rearranged, sentence_logits=logits)
