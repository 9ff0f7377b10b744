"""TEAMS: ELECTRA, plus the choice of the right word of a few at masked slots.

    loss = gen_weight * mean over masked slots of -log p_G(x_t | masked x)
         + disc_weight * mean over real tokens of BCE(D(corrupted x)_t, y_t)
         + selection_weight * mean over masked slots of -log p(x_t | z)

    p(v | z)_t = exp(<g(h(z)_t), e(v)>) / sum of the same over C_t
    C_t = x_t and num_candidates - 1 other words, drawn from p_G(. | masked x)_t
          without replacement

z is the corrupted text, g the layer of `heads.SelectionPredictions`, y_t and
the samples are ELECTRA's. All layers except the topmost serve both tasks; each
task has a top layer of its own: the choice in the scope `electra`, the encoder
that is kept; the discriminator in the scope `discriminator_encoder`. No
gradient passes through z or C.

Differs: in the published code the generator is as wide as the main encoder
and shares its three lowest layers; here it is ELECTRA's. The weights are those
of the published code, 1, 5 and 2.

Source: Shen et al., 2021, "Training ELECTRA Augmented with Multi-word
Selection"; its code, official/projects/teams of tensorflow/models.
"""

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.model import tensor_ops
from electra_tf.model.modeling import EncoderOutput, TransformerBlock
from electra_tf.pretrain import generators
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import ForwardPass, Loss, softmax_metrics
from electra_tf.pretrain.objectives.mc_bert import SelectionModel
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Metrics
from electra_tf.pretrain.random_keys import Purpose, RandomKeys, draw
from electra_tf.util import seeds

_OWN_DROPOUT = 1000  # beyond the keys of the encoder's layers


class Teams(SelectionModel):
    """Trains a generator, a discriminator, and a choice among words."""

    def declare_main_losses(self) -> dict[str, Loss]:
        selection_loss = self.declare_selection_loss(over="masked")
        return super().declare_main_losses() | selection_loss

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        # The discriminator's own top layer counts as a further layer.
        selection = sizes.config.objective
        detection = sizes.main(
            num_more_layers=1,
            num_decisions=sizes.num_tokens,
            num_choices=sizes.num_masked,
            num_candidates=selection.num_candidates,
        )
        return {**cls.generator_passes(sizes), "discriminator": detection}

    def _build_head(self, bert: BertConfig) -> None:
        super()._build_head(bert)
        self.build_selection_head(bert, has_neither=False)
        name = f"layer_{bert.num_hidden_layers - 1}"
        self.blocks = [TransformerBlock(bert, name, self.policy)]
        with keras.name_scope("discriminator_encoder"):
            self.blocks[0].build((None, None, bert.hidden_size))
        self.electra.initialize_attention(self.blocks)

    @property
    def detector(self) -> tuple[keras.layers.Layer, ...]:
        return (self.electra, *self.blocks, self.discriminator_predictions)

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        corrupted = self.corrupt(inputs, keys=keys, training=training)
        masked = corrupted.masked
        logits = tf.stop_gradient(corrupted.mlm_logits)
        uniform = draw(keys, Purpose.CANDIDATES, tuple(logits.shape[1:]))
        logits += generators.gumbel_noise(uniform)
        num_wrong = self.config.objective.num_candidates - 1
        wrong = generators.largest_others(logits, masked.ids, num_wrong)
        words = tf.concat([masked.ids[..., tf.newaxis], wrong], -1)
        inner = self.main_dropout(keys, training)
        output = self.electra(*corrupted.fake.inputs, keys=inner)
        states = output.sequence_output
        states = tensor_ops.gather_positions(states, masked.positions)
        return corrupted.extended(
            disc_logits=self._detect(output, corrupted.fake.inputs, inner),
            words=words,
            selection_logits=self.selection_predictions(
                states, words, self.word_table
            ),
        )

    def discriminate(
        self, inputs: Inputs, keys: tf.Tensor | None = None
    ) -> tf.Tensor:
        output = self.electra(*inputs, keys=keys)
        return self._detect(output, inputs, keys)

    def _detect(
        self, output: EncoderOutput, inputs: Inputs, keys: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the logits of the discriminator's own top layer, [B, L]."""
        x = (output.embedding_output, *output.all_layers)[-2]
        bias = self.electra.bias(inputs.input_mask)
        x = self.blocks[0](x, bias, seeds.fold_in(keys, _OWN_DROPOUT))
        return self.discriminator_predictions(x)

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        masked = forward_pass.masked
        return {
            **super().measure(forward_pass),
            **softmax_metrics(
                "selection",
                forward_pass.selection_logits,
                tf.zeros_like(masked.ids),  # the right one comes first
                masked.weights,
            ),
        }
