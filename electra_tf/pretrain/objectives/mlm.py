"""Masked language modelling: BERT's objective, the baseline in the same code.

    loss = mean over masked slots of -log p(x_t | masked x)

One encoder with the discriminator's size predicts the tokens itself.
`mask_token_prob` and `random_token_prob` set what a chosen position shows: the
original's 85/15/0 by default, BERT's with 0.8 and 0.1.

Source: paper section 3.4 (BERT); the original with `electra_objective` false.
"""

import math

from electra_tf.config.model import BertConfig
from electra_tf.model.modeling import BertModel
from electra_tf.model.networks import ElectraGenerator
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import ForwardPass, Loss, softmax_metrics
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Metrics, PretrainingModel
from electra_tf.pretrain.random_keys import Purpose, RandomKeys, dropout_keys


class MaskedLanguageModel(PretrainingModel):
    """Trains one encoder to fill in masks."""

    token_output = ""
    has_own_generator = False

    def build_networks(self, bert: BertConfig) -> None:
        self.electra = BertModel(
            bert, is_packed=self.config.corpus.is_packed, dtype=self.policy
        )
        self.electra.build((None, None))
        self.generator_model = ElectraGenerator(
            bert, encoder=self.electra, seed=None
        )
        self.generator_predictions = self.generator_model.head

    def declare_losses(self) -> dict[str, Loss]:
        weight, word = self.config.objective.gen_weight, self.vocabulary.size
        return {"masked_lm_loss": Loss(weight, math.log(word), over="masked")}

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        return {"encoder": sizes.main(num_predictions=sizes.num_masked)}

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        masked = self.mask(inputs, keys)
        outputs = self.generator_model(
            masked.inputs._asdict() | {"positions": masked.positions},
            keys=dropout_keys(keys, Purpose.GENERATOR_DROPOUT, training),
        )
        return ForwardPass(
            inputs=inputs,
            masked=masked,
            mlm_logits=outputs["logits"],
        )

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        masked = forward_pass.masked
        return softmax_metrics(
            "masked_lm", forward_pass.mlm_logits, masked.ids, masked.weights
        )
