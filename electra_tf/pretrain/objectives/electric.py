"""Electric: an energy for every token, by noise-contrastive estimation.

    loss = gen_weight * mean over all tokens but [CLS], [SEP], [MASK]
                        of -log q(x_t | others)
         + disc_weight * mean over real tokens of BCE(z_t, chosen_t)
    z_t = E(noised x)_t + log q(noised x_t | others) + log(k / (m - k))

q is the two-tower generator, which reads the clean text and is trained by
maximum likelihood on all of it. Of the m tokens of a row that may be replaced,
k are replaced by its samples. All k count as noise, even where the sample
equals the data: exp(-E(x)_t) then learns to be p(x_t | others), without a
softmax and without a mask. No gradient passes through q or the samples.

Memory: the cloze loss needs a softmax over the vocabulary at every token, with
B L V logits. They are computed in blocks of 128 MB, and again for the gradient,
see `model/vocabulary_softmax`.

Differs: for k / (m - k) the original has p / (1 - p), p the `mask_prob`
(`original_behaviour=noise_odds`), and the paper k / (n - k) of all n tokens. In
a row of twenty that makes every probability an eighth too small, in one of 128
a sixtieth. The original builds log q with one-hot vectors, and samples at a
temperature or without the correct token while log q ignores both; here such a
configuration is refused.

Source: Clark et al., 2020, "Pre-Training Transformers as Energy-Based Cloze
Models", algorithm 2; the original with `electric_objective`.
"""

import math

import tensorflow as tf

from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import two_tower
from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.metrics import ForwardPass, Loss
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.random_keys import RandomKeys, progress
from electra_tf.util.errors import UserError


class Electric(Electra):
    """Trains two towers and the energies, which `discriminate` returns."""

    token_output = "energies"
    generator_types = ("two_tower",)
    can_freeze = False

    @classmethod
    def generator_type(cls, config: PretrainingConfig) -> str:
        kind = config.objective.generator_type
        return "two_tower" if kind == "transformer" else kind  # the default

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        super().check(config)
        objective, strategy = config.objective, config.masking.masking_strategy
        if strategy != "uniform":
            raise UserError(
                f"masking_strategy={strategy} makes some tokens likelier to be "
                "noise; energies of objective=electric need uniform."
            )
        if not two_tower.has_exact_samples(objective, config.masking):
            raise UserError(
                "objective=electric needs the probability of each sample: "
                "temperature, temperature_end, top_k and disallow_correct keep "
                "their defaults."
            )

    def declare_main_losses(self) -> dict[str, Loss]:
        share = self.config.masking.mask_prob
        surprise = math.log(self.vocabulary.size * (1 - share) / share)
        chance = share * surprise + math.log1p(math.exp(-surprise))
        loss = super().declare_main_losses()["disc_loss"]
        return {"disc_loss": loss._replace(chance=chance)}

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        forward_pass = super().forward(inputs, keys=keys, training=training)
        fake = forward_pass.fake
        is_noise = tf.cast(
            pretrain_helpers.chosen_mask(forward_pass.masked), tf.int32
        )
        log_q = forward_pass.cloze.log_probs(fake.inputs.input_ids)
        return forward_pass.extended(
            fake=fake._replace(is_fake_tokens=is_noise),
            disc_logits=forward_pass.disc_logits
            + tf.stop_gradient(log_q)
            + self._log_odds(inputs, is_noise, keys),
        )

    def _log_odds(
        self, inputs: Inputs, is_noise: tf.Tensor, keys: RandomKeys
    ) -> tf.Tensor:
        """Returns log(k / (m - k)), float32 [B, 1] or [1, 1]."""
        if "noise_odds" in self.config.original_behaviour:
            share = self.config.masking.mask_prob_at(progress(keys))
            odds = tf.convert_to_tensor(share / (1.0 - share), tf.float32)
            return tf.reshape(tf.math.log(odds), [-1, 1])
        allowed = pretrain_helpers.candidates_mask(inputs, self.vocabulary)
        k, m = (
            tf.reduce_sum(tf.cast(x, tf.float32), -1, keepdims=True)
            for x in (is_noise, allowed)
        )
        # For rows whose candidates are all noise, or that have none.
        return tf.math.log(tf.maximum(k, 1.0) / tf.maximum(m - k, 1.0))

    def _has_cloze(self, inputs: Inputs) -> tf.Tensor:
        """Returns bool [B, L]; as in the original, also [CLS] and [SEP]."""
        return inputs.is_real
