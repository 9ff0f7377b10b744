"""A generator that works against the discriminator.

    loss = disc_weight * L_D + gen_weight * L_G + L_b
    L_G = (1 - beta) * mean over masked slots of -log p_G(x_t | masked x)
        + beta * L_A

L_D is ELECTRA's. beta rises linearly from 0 to `adversarial_weight` between
the updates of `adversarial_steps`: the generator goes from maximum likelihood
to an adversary. L_A is one of

reinforce: the generator's reward for a sample z_t is the discriminator's loss,

    R_t = BCE(D(z)_t, y_t),  b_t = -log sigmoid(u_t),  u = w' h_G + c
    L_A = mean over masked slots of -(R_t - b_t) log p_G(z_t | masked x)
    L_b = mean over masked slots of BCE(u_t, exp(-R_t))

and sigmoid(u_t) learns the probability that D gives to the right answer.
Each slot is credited alone, as in the paper. No gradient passes through R, b,
or from L_b into the generator.

gumbel: D reads samples as one-hot rows times its word table. The rows take the
gradient of their relaxation softmax(logits + g), with g the Gumbel noise whose
argmax is the sample. L_A = -disc_weight * L_D: the discriminator's gradient
enters the generator reversed, without a separate term. The word table gets no
gradient through the relaxation.

Evaluation uses the final beta at every step.

A sample that equals the data counts as real. `generator_entropy`, in nats,
reveals a collapse: it falls towards 0 while `masked_lm_loss` does not.

Differs: Gumbel-Softmax is not in the paper. `log p_G(z)` belongs to the
sampled distribution, with `temperature`, `disallow_correct` and `top_k`.

Source: paper appendix F; Jang et al. 2017 (Gumbel-Softmax); Meng et al. 2022
(AMOS), for the reversed gradient.
"""

import math

import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.config.objectives import ObjectiveConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import layers, losses, tensor_ops
from electra_tf.pretrain import generators
from electra_tf.pretrain.metrics import ForwardPass, Loss
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretrain_helpers import Masked
from electra_tf.pretrain.pretraining_model import Metrics
from electra_tf.pretrain.random_keys import (
    Purpose,
    RandomKeys,
    draw,
    linear_ramp,
    step_of,
)
from electra_tf.util.errors import UserError


class Adversarial(Electra):
    """Trains a discriminator, and a generator to fool it."""

    generator_types = ("transformer",)
    can_freeze = False

    def build_networks(self, bert: BertConfig) -> None:
        super().build_networks(bert)
        self.is_relaxed = self.config.objective.adversarial_method == "gumbel"
        if not self.is_relaxed:
            bert = self.generator.config
            self.baseline = layers.Linear(
                1, bert.initializer_range, name="baseline_predictions"
            )
            self.baseline.build((None, None, bert.hidden_size))

    def declare_losses(self) -> dict[str, Loss]:
        config = self.config.objective
        share = float(adversarial_share(tf.constant(0.0), config))
        word = (1 - share) * math.log(self.vocabulary.size)
        found = self.declare_main_losses()
        found["generator_loss"] = Loss(config.gen_weight, word, "masked")
        if config.adversarial_method == "reinforce":
            found["baseline_loss"] = Loss(1.0, math.log(2), over="masked")
        return found

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        super().check(config)
        method = config.objective.adversarial_method
        if config.model.generator_sharing == "all":
            raise UserError("A network cannot be trained against itself.")
        if "masking" in config.original_behaviour:
            raise UserError(
                "With original_behaviour=masking, of a position drawn twice "
                "neither sample is in the text."
            )
        if method == "gumbel" and "sampling" in config.original_behaviour:
            raise UserError("adversarial_method=gumbel draws its own noise.")

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Masks, samples and discriminates.

        Adds sampling_logits float32 [B, N, V]; baseline_logits float32 [B, N],
        u, None without a baseline; and share float32 [B, 1] or [1, 1], beta.
        """
        masked = self.mask(inputs, keys)
        inner = self.generator_dropout(keys, training)
        states = self.generator(*masked.inputs, keys=inner).sequence_output
        states = tensor_ops.gather_positions(states, masked.positions)
        mlm_logits = self.generator_model.score(states)  # [B, N, H -> V]
        fake = self._replace_by_samples(inputs, masked, mlm_logits, keys)
        step = step_of(keys, self.config.training.num_train_steps)
        share = adversarial_share(step, self.config.objective)
        sampling_logits = generators.sampling_logits(
            mlm_logits, masked, self.config, self.temperature(keys)
        )
        word_offsets = baseline = None
        if self.is_relaxed:
            noise = _gumbel_noise(sampling_logits, keys)
            relaxed = tf.nn.softmax(sampling_logits + noise)
            word_offsets = self._reversed_gradient(masked, relaxed, share)
        else:
            baseline = self.baseline(tf.stop_gradient(states))[..., 0]
        output = self.electra(
            *fake.inputs,
            keys=self.main_dropout(keys, training),
            word_offsets=word_offsets,
        )
        return ForwardPass(
            inputs=inputs,
            masked=masked,
            mlm_logits=mlm_logits,
            fake=fake,
            disc_logits=self.discriminator_predictions(output.sequence_output),
            sampling_logits=sampling_logits,
            baseline_logits=baseline,
            share=share,
        )

    def _sample(self, logits: tf.Tensor, keys: RandomKeys) -> tf.Tensor:
        if not self.is_relaxed:
            return super()._sample(logits, keys)
        return tf.argmax(logits + _gumbel_noise(logits, keys), -1, tf.int32)

    def _reversed_gradient(
        self, masked: Masked, relaxed: tf.Tensor, share: tf.Tensor
    ) -> tf.Tensor:
        """Returns zeros, float32 [B, L, E], that pass on a gradient."""
        scale = -share * self.config.objective.gen_weight * masked.weights
        scale = scale[..., tf.newaxis]  # [B, N, 1]
        table = tf.stop_gradient(self.word_table)
        zeros = scale * (relaxed - tf.stop_gradient(relaxed))  # [B, N, V]
        zeros = tensor_ops.linear(zeros, table, tf.zeros(table.shape[1]))
        length = masked.inputs.input_ids.shape[1]
        places = tf.one_hot(masked.positions, length)  # [B, N, L]
        return tf.matmul(places, zeros, transpose_a=True)  # [B, L, E]

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        masked, logits = forward_pass.masked, forward_pass.mlm_logits
        share, weights = forward_pass.share, masked.weights
        likelihood = losses.softmax_cross_entropy(logits, masked.ids)
        loss = (1 - share) * likelihood  # [B, N]
        metrics = super().measure(forward_pass)
        if not self.is_relaxed:
            policy_loss, reinforce_metrics = self._reinforce(forward_pass)
            loss += share * policy_loss
            metrics |= reinforce_metrics
        entropy = losses.entropy(logits)  # [B, N]
        return {
            **metrics,
            "generator_loss": losses.weighted(loss, weights),
            "generator_entropy": losses.weighted(entropy, weights),
            "adversarial_share": losses.weighted(share, weights),
        }

    def _reinforce(
        self, forward_pass: ForwardPass
    ) -> tuple[tf.Tensor, Metrics]:
        """Computes the REINFORCE loss of each sample, [B, N]."""
        masked, fake = forward_pass.masked, forward_pass.fake
        at = masked.positions
        verdicts = tensor_ops.gather_positions(forward_pass.disc_logits, at)
        labels = tensor_ops.gather_positions(fake.is_fake_tokens, at)
        rewards = tf.stop_gradient(
            losses.sigmoid_cross_entropy(verdicts, labels)
        )  # [B, N]
        gate = forward_pass.baseline_logits
        advantages = rewards - tf.stop_gradient(tf.nn.softplus(-gate))
        surprisal = losses.softmax_cross_entropy(
            forward_pass.sampling_logits, fake.sampled_ids
        )
        baseline = losses.sigmoid_cross_entropy(gate, tf.exp(-rewards))
        return advantages * surprisal, {
            "baseline_loss": losses.weighted(baseline, masked.weights),
            "reward": losses.weighted(rewards, masked.weights),
        }


def adversarial_share(step: tf.Tensor, config: ObjectiveConfig) -> tf.Tensor:
    ramp = linear_ramp(step, *config.adversarial_steps)
    return config.adversarial_weight * ramp


def _gumbel_noise(logits: tf.Tensor, keys: RandomKeys) -> tf.Tensor:
    """Draws the same Gumbel noise at each call, float32 [B, N, V]."""
    uniform = draw(keys, Purpose.SAMPLE, tuple(logits.shape[1:]))
    return generators.gumbel_noise(uniform)
