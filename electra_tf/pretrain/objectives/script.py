"""SCRIPT: a single network fills masks and detects the replaced words.

    loss = gen_weight * mean over masked slots of -log p(x_t | masked x)
         + disc_weight * mean over real tokens of BCE(s(corrupted x)_t, y_t)

    p(v | x)_t = softmax(f(x)_t)_v,   s(x)_t = log (1 / V) sum_v exp(f(x)_t,v)

The same encoder and head f read the text twice: with masks, which they learn to
fill, and with their own samples in place of the masks. A softmax does not
depend on a constant added to all scores of a token; this free constant is the
prediction: s over 0 means "replaced". It costs no weights, but scores of every
word at every token, computed in blocks (`model/vocabulary_softmax`). A sample
that equals the data counts as real, and no gradient passes through it.

The size of the generator and its sharing have no effect; gradient_disentangled
is refused.

Differs: the published code has the sum of the exponentials, not their mean; its
logits start at ln V, ours at 0.

Source: Nijkamp et al., 2021, "SCRIPT: Self-Critic PreTraining of Transformers";
the head in Geiping and Goldstein, 2022, "Cramming".
"""

import math

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model.modeling import BertModel
from electra_tf.model.networks import ElectraGenerator
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.util.errors import UserError


class Script(Electra):
    """Trains one network to fill masks and to detect its own samples."""

    has_own_generator = False
    generator_types = ("transformer",)
    can_freeze = False

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        super().check(config)
        if config.model.generator_sharing == "gradient_disentangled":
            raise UserError(
                "The embeddings of a single network cannot be disentangled."
            )

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        return {
            "encoder": sizes.main(num_predictions=sizes.num_masked),
            "critic": sizes.main(num_predictions=sizes.num_tokens),
        }

    def _build_head(self, bert: BertConfig) -> None:
        self.generator_model = ElectraGenerator(
            bert, encoder=self.electra, seed=None
        )
        self.generator_predictions = self.generator_model.head

    def _build_generator(self, main: BertModel | None) -> None:
        self.generator = main

    @property
    def detector(self) -> tuple[keras.layers.Layer, ...]:
        return (self.electra, self.generator_predictions)

    def discriminate(
        self, inputs: Inputs, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        states = self.electra(*inputs, keys=keys).sequence_output
        words = self.generator_predictions.distribution(
            states, self.electra.embeddings.word_embeddings, inputs.is_real
        )
        return words.log_z - math.log(self.vocabulary.size)
