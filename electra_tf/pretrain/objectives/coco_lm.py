"""COCO-LM: detect replaced tokens, correct them, and match a text to its crop.

    loss = gen_weight * mean over masked slots of -log p_G(x_t | masked x)
         + disc_weight * mean over real tokens of BCE(D(z)_t, y_t)
         + mean over masked slots of -log p(x_t | z)
         + mean over rows of (l(a, b) + l(b, a)) / 2

    l(u, v) = -log exp(cos(u, v)) / sum over w of exp(cos(u, w))

z is the corrupted text; the generator, D and y_t are ELECTRA's. The corrector
is a softmax over the vocabulary on the main encoder. a and b are the outputs of
the encoder and a layer LayerNorm(gelu(h W + c)) at [CLS], for z and for a crop:
[CLS], 90 % of the row's tokens from a random one on, [SEP]. w runs over
both views of all rows of the group except u itself.

A group is `contrast_group` consecutive rows of the global batch. It stays in
one micro-batch of one replica: the loss does not depend on how a batch is
divided. Batches that cannot be divided so are refused. Rows of padding are not
used as negatives.

With dropout, the generator runs twice, because it samples without dropout.

Differs: in the published code the negatives are all rows on one device, and the
loss changes with their number. The discriminator and the corrector have the
hidden layers of ELECTRA's heads, which the published code leaves out. The
positions are ELECTRA's, not relative.

Source: Meng et al., 2021, "COCO-LM: Correcting and Contrasting Text Sequences
for Language Model Pretraining"; its code, fairseq/models/cocolm/model.py.
"""

import math

import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.model import heads, losses, tensor_ops
from electra_tf.model.tokenization import Vocabulary
from electra_tf.pretrain.flops import Pass, Sizes
from electra_tf.pretrain.metrics import ForwardPass, Loss, softmax_metrics
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.objectives.replace_mlm import (
    corrector_head,
    corrector_loss,
)
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import Metrics, PretrainingModel
from electra_tf.pretrain.random_keys import (
    Purpose,
    RandomKeys,
    draw,
    dropout_keys,
)

CROP_SHARE = 0.9  # of a row's tokens


class CocoLm(Electra):
    """Trains a generator, and an encoder that detects, corrects, contrasts."""

    generator_types = PretrainingModel.generator_types
    can_freeze = False
    has_row_loss = True

    @classmethod
    def batch_group_size(cls, config: PretrainingConfig) -> int:
        return config.objective.contrast_group

    def declare_main_losses(self) -> dict[str, Loss]:
        others = math.log(2 * self.config.objective.contrast_group - 1)
        return super().declare_main_losses() | {
            "corrector_loss": corrector_loss(self.vocabulary),
            "contrast_loss": Loss(1.0, others, "rows"),
        }

    @classmethod
    def passes(cls, sizes: Sizes) -> dict[str, Pass]:
        passes, masked = cls.generator_passes(sizes), sizes.num_masked
        if passes and sizes.config.model.has_dropout:
            passes["sampler"] = sizes.generator(
                num_predictions=masked, is_trained=False
            )
        return passes | {
            "discriminator": sizes.main(
                num_predictions=masked, num_decisions=sizes.num_tokens
            ),
            "crop": sizes.main(),  # counted as long as the row
        }

    def _build_head(self, bert: BertConfig) -> None:
        super()._build_head(bert)
        self.corrector_predictions = corrector_head(bert, self.policy)
        self.contrast_predictions = heads.Projection(
            bert.hidden_size,
            bert.initializer_range,
            name="contrast_predictions",
            dtype=self.policy,
        )
        self.contrast_predictions.build((None, None, bert.hidden_size))

    def corrupt(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Masks, and replaces masked tokens by samples without dropout."""
        corrupted = super().corrupt(inputs, keys=keys, training=training)
        if not (training and self.config.model.has_dropout):
            return corrupted
        without_dropout = super().corrupt(inputs, keys=keys, training=False)
        return corrupted.extended(fake=without_dropout.fake)

    def forward(
        self, inputs: Inputs, *, keys: RandomKeys, training: bool
    ) -> ForwardPass:
        """Masks, samples, crops and encodes.

        Adds corrector_logits float32 [B, N, V], and views float32 [B, 2, H] of
        the corrupted text and of the crop.
        """
        corrupted = self.corrupt(inputs, keys=keys, training=training)
        inner = self.main_dropout(keys, training)
        output = self.electra(*corrupted.fake.inputs, keys=inner)
        states = output.sequence_output
        where = draw(keys, Purpose.CROP, ())  # [B]
        cropped = self.electra(
            *crop(inputs, CROP_SHARE, where, self.vocabulary),
            keys=dropout_keys(keys, Purpose.CROP_DROPOUT, training),
        )
        cls_states = [output.pooled_output, cropped.pooled_output]  # 2 [B, H]
        return corrupted.extended(
            disc_logits=self.discriminator_predictions(states),
            corrector_logits=self.corrector_predictions(
                tensor_ops.gather_positions(states, corrupted.masked.positions),
                self.word_table,
            ),
            views=self.contrast_predictions(tf.stack(cls_states, 1)),
        )

    def measure(self, forward_pass: ForwardPass) -> Metrics:
        masked, logits = forward_pass.masked, forward_pass.corrector_logits
        is_text = tf.reduce_any(forward_pass.inputs.is_real, -1)  # [B]
        return {
            **super().measure(forward_pass),
            **softmax_metrics("corrector", logits, masked.ids, masked.weights),
            **contrast_metrics(
                forward_pass.views,
                tf.cast(is_text, tf.float32),
                group=self.config.objective.contrast_group,
            ),
        }


def crop(
    inputs: Inputs, share: float, where: tf.Tensor, vocabulary: Vocabulary
) -> Inputs:
    """Crops each row to consecutive tokens of it: where [B] -> [B, L]."""
    length = tensor_ops.shape_of(inputs.input_ids)[1]
    num_tokens = tf.reduce_sum(tf.cast(inputs.is_real, tf.int32), -1)
    inner = tf.cast(num_tokens - 2, tf.float32)
    kept = tf.maximum(tf.round(share * inner), 1.0)
    start = tf.floor(where * (inner - kept + 1.0))
    kept, start = (tf.cast(x, tf.int32)[:, tf.newaxis] for x in (kept, start))
    places = tf.range(length)[tf.newaxis]  # [1, L]
    is_real = places < tf.where(num_tokens[:, tf.newaxis] > 0, kept + 2, 0)
    source = tf.where(places > 0, places + start, 0)  # [B, L]
    source = tf.clip_by_value(source, 0, length - 1)
    ids, segments = (
        tf.where(is_real, tensor_ops.gather_positions(x, source), 0)
        for x in (inputs.input_ids, inputs.segment_ids)
    )
    ids = tf.where(is_real & (places == kept + 1), vocabulary.sep_id, ids)
    return Inputs(ids, tf.cast(is_real, tf.int32), segments)


def contrast_metrics(
    views: tf.Tensor,  # [B, 2, H]
    is_text: tf.Tensor,  # [B]
    *,
    group: int,
) -> Metrics:
    """Computes how well each view identifies the other view of its row."""
    missing = -tensor_ops.shape_of(is_text)[0] % group
    views = tf.pad(views, [[0, missing], [0, 0], [0, 0]])
    weights = tf.pad(is_text, [[0, missing]])
    weights = tf.repeat(tf.reshape(weights, [-1, group]), 2, -1)  # [G, 2g]
    views = tf.reshape(views, [-1, 2 * group, views.shape[-1]])
    views = tf.math.l2_normalize(views, -1, epsilon=1e-12)
    cosines = tf.matmul(views, views, transpose_b=True)  # [G, 2g, 2g]
    is_other = (weights[:, tf.newaxis] > 0) & ~tf.eye(2 * group, dtype=tf.bool)
    logits = tf.where(is_other, cosines, tensor_ops.ZERO_PROB_LOGIT)
    # Views of a row are neighbours: 0 with 1, 2 with 3.
    partner = tf.bitwise.bitwise_xor(tf.range(2 * group), 1)
    partner = tf.broadcast_to(partner, tf.shape(weights))
    loss = losses.softmax_cross_entropy(logits, partner)
    best = tf.argmax(logits, -1, output_type=tf.int32)
    return {
        "contrast_loss": losses.weighted(loss, weights / 2),
        "contrast_accuracy": losses.weighted(best == partner, weights / 2),
    }
