"""Replace MLM: a masked language model that never sees [MASK].

    loss = gen_weight * mean over masked slots of -log p_G(x_t | masked x)
         + mean over them of -log p(x_t | corrupted x)

The generator is ELECTRA's, trained jointly. The encoder that is kept (here the
corrector) reads the generator's samples where BERT reads [MASK], and predicts
the original tokens there with a softmax over the vocabulary and a head of its
own. Its gain over BERT measures the cost of the mismatch between pre-training
with [MASK] and fine-tuning without.

The paper does not state the weight of the corrector's loss: here it is 1, like
the generator's.

Source: paper section 3.4, table 5 ("Replace MLM").
"""

import math

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import heads, tensor_ops
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import ForwardPass, Loss, softmax_metrics
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Metrics, PretrainingModel
from electra_tf.pretrain.random_keys import RandomKeys


class ReplaceMlm(Electra):
    """Trains a generator, and an encoder that corrects its replacements."""

    token_output = "words"
    generator_types = PretrainingModel.generator_types

    def declare_main_losses(self) -> dict[str, Loss]:
        return {"corrector_loss": corrector_loss(self.vocabulary)}

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        correction = sizes.main(num_predictions=sizes.num_masked)
        return {**cls.generator_passes(sizes), "encoder": correction}

    def _build_head(self, bert: BertConfig) -> None:
        self.corrector_predictions = corrector_head(bert, self.policy)

    @property
    def detector(self) -> tuple[keras.layers.Layer, ...]:
        """Empty: the corrector gives no verdicts."""
        return ()

    @property
    def corrector(self) -> tuple[keras.layers.Layer, ...]:
        """Layers of `log_probabilities`, the encoder first."""
        return (self.electra, self.corrector_predictions)

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        corrupted = self.corrupt(inputs, keys=keys, training=training)
        inner = self.main_dropout(keys, training)
        output = self.electra(*corrupted.fake.inputs, keys=inner)
        return corrupted.extended(states=output.sequence_output)

    def logits(self, states: tf.Tensor) -> tf.Tensor:
        """Scores every word of the vocabulary: [B, N, H] -> [B, N, V]."""
        return self.corrector_predictions(states, self.word_table)

    def log_probabilities(
        self, states: tf.Tensor, input_ids: tf.Tensor
    ) -> tf.Tensor:
        """Computes log p of the original word: [B, L, H] -> [B, L, V]."""
        return tf.nn.log_softmax(self.logits(states))

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        masked = forward_pass.masked
        states = tensor_ops.gather_positions(
            forward_pass.states, masked.positions
        )
        logits = self.logits(states)  # [B, N, V]
        return {
            **self._generator_metrics(forward_pass),
            **softmax_metrics("corrector", logits, masked.ids, masked.weights),
        }


def corrector_loss(vocabulary: Vocabulary) -> Loss:
    """Returns the loss of words predicted at the masked slots."""
    return Loss(1.0, math.log(vocabulary.size), over="masked")


def corrector_head(bert: BertConfig, policy: str) -> heads.GeneratorPredictions:
    head = heads.GeneratorPredictions(bert, "corrector_predictions", policy)
    head.build((None, None, bert.hidden_size))
    return head
