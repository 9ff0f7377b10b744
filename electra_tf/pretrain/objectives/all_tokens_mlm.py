"""All-Tokens MLM: predicts every token, with a gate that may copy the input.

    loss = gen_weight * mean over masked slots of -log p_G(x_t | masked x)
         + mean over real tokens of -log p(x_t | z),  with

    p(v | z)_t = D_t [v = z_t] + (1 - D_t) softmax(e(v)' h(z)_t)

z is the text with the generator's samples and D_t = sigmoid(c_t) the
probability that its token t is copied. D has no loss of its own. Neither D nor
1 - D is formed: with

    a_t = log sigmoid(c_t)
    b_t = log sigmoid(-c_t) + log softmax(e(v)' h(z)_t) at v = x_t

the loss is -log(exp(a_t) + exp(b_t)) where z_t = x_t, and -b_t elsewhere: both
are finite for any c_t.

Memory: about three tensors of logits for every token, float32 [B, L, V], 2 GB
each for 128 rows of 128 tokens; --gradient_accumulation_steps divides them.

Differs: the paper says "a sigmoid layer"; here a hidden layer precedes the
layer that gives c_t, as in the original's discriminator, where the paper has
none either. The weight of the corrector's loss is not stated: 1 here.

Source: paper section 3.4, table 5 ("All-Tokens MLM").
"""

import math

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import heads, losses
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import ForwardPass, Loss
from electra_tf.pretrain.objectives.replace_mlm import ReplaceMlm
from electra_tf.pretrain.pretraining_model import Metrics


class AllTokensMlm(ReplaceMlm):
    """Trains a generator, and an encoder that copies or corrects each token."""

    def declare_main_losses(self) -> dict[str, Loss]:
        log_size = math.log(self.vocabulary.size)
        chance = math.log(2) + self.config.masking.mask_prob * log_size
        return {"corrector_loss": Loss(1.0, chance, over="real")}

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        length = sizes.num_tokens
        correction = sizes.main(num_predictions=length, num_decisions=length)
        return {**cls.generator_passes(sizes), "encoder": correction}

    def _build_head(self, bert: BertConfig) -> None:
        super()._build_head(bert)
        self.copy_predictions = heads.DiscriminatorPredictions(
            bert, "copy_predictions", self.policy
        )
        self.copy_predictions.build((None, None, bert.hidden_size))

    @property
    def corrector(self) -> tuple[keras.layers.Layer, ...]:
        return (*super().corrector, self.copy_predictions)

    def log_probabilities(
        self, states: tf.Tensor, input_ids: tf.Tensor
    ) -> tf.Tensor:
        """Computes log p(v | z)_t, [B, L, V]."""
        gate = tf.expand_dims(self.copy_predictions(states), -1)  # [B, L, 1]
        words = tf.nn.log_softmax(self.logits(states))  # [B, L, V]
        corrected = tf.math.log_sigmoid(-gate) + words
        copied = _log_of_sum(tf.math.log_sigmoid(gate), corrected)
        is_input = tf.expand_dims(input_ids, -1) == tf.range(words.shape[-1])
        return tf.where(is_input, copied, corrected)

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        inputs = forward_pass.inputs
        corrupted = forward_pass.fake.inputs.input_ids
        is_fake = forward_pass.fake.is_fake_tokens
        weights = tf.cast(inputs.is_real, tf.float32)
        fakes = weights * tf.cast(is_fake, tf.float32)
        gate = self.copy_predictions(forward_pass.states)  # [B, L]
        logits = self.logits(forward_pass.states)  # [B, L, V]
        words = -losses.softmax_cross_entropy(logits, inputs.input_ids)
        log_sum = _logits_at(logits, inputs.input_ids) - words
        # Likelihoods divided by 1 - D, as D / (1 - D) = exp(c): of the best
        # word, and of the token that is read.
        best = tf.argmax(logits, -1, output_type=tf.int32)
        log_best = tf.reduce_max(logits, -1) - log_sum
        log_read = _log_of_sum(gate, _logits_at(logits, corrupted) - log_sum)
        predicted = tf.where(log_read >= log_best, corrupted, best)
        right = predicted == inputs.input_ids
        return {
            **self._generator_metrics(forward_pass),
            "corrector_loss": losses.weighted(
                copy_cross_entropy(gate, words, is_fake), weights
            ),
            "corrector_accuracy": losses.weighted(right, weights),
            "corrected_share": losses.weighted(right, fakes),
            "copy_probability": losses.weighted(tf.sigmoid(gate), weights),
            "replaced_share": losses.weighted(is_fake, weights),
        }


def copy_cross_entropy(
    gate: tf.Tensor, words: tf.Tensor, is_fake: tf.Tensor
) -> tf.Tensor:
    """Computes -log p(x_t | z) of the mixture, all [B, L]."""
    corrected = tf.math.log_sigmoid(-gate) + words
    copied = _log_of_sum(tf.math.log_sigmoid(gate), corrected)
    return -tf.where(is_fake > 0, corrected, copied)


def _logits_at(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Picks one logit of each token: [B, L, V], [B, L] -> [B, L]."""
    return tf.gather(logits, ids, axis=2, batch_dims=2)


def _log_of_sum(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Computes log(exp(x) + exp(y)) without overflow."""
    return x + tf.nn.softplus(y - x)
