"""A two-tower generator: two encoders, one for each direction.

Token t is predicted from the left-to-right tower's state at t - 1 and the
right-to-left tower's at t + 1: each token of a clean text from all others in
one pass, without masks. As in the original, states roll around the ends of a
row, where nothing is predicted. Differs: in rows of several documents, states
of a neighbouring document are replaced by zeros.

Beside a discriminator the towers score a clean text in one pass: with D the
probability that a token is real, q that of the towers, and k of m candidates in
a row replaced,

    log p(x_t | others) = log (D q / (a (1 - D) + q)),   a = (m - k) / k

A sample that equals the original token counts as real. Differs: the paper has
a = (1 - p) / p with p the `mask_prob`; in long rows that is the same. Tokens
that are never replaced in training, as [CLS], have no score.

Source: Clark et al., 2020 (Electric), sections 2 and 4; the original's
run_pretraining.py; ELECTRA paper, appendix G, whose formula is derived here.
"""

import keras
import tensorflow as tf

from electra_tf.config.model import BertConfig
from electra_tf.config.objectives import MaskingConfig, ObjectiveConfig
from electra_tf.model import layers
from electra_tf.model.modeling import BertModel, Embeddings
from electra_tf.util import seeds

TOWERS = {"generator_ltr": "left_to_right", "generator_rtl": "right_to_left"}
"""The original's name of each tower -> its direction."""


class TwoTowerModel(keras.layers.Layer):
    """Two encoders that read clean text from left and right: [B, L, 2H]."""

    def __init__(
        self,
        config: BertConfig,
        embeddings: Embeddings | None = None,
        name: str = "generator",
        *,
        is_packed: bool = False,
        dtype: layers.Policy = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.is_packed = is_packed
        self.towers = [
            BertModel(
                config,
                tower,
                embeddings,
                direction=direction,
                is_packed=is_packed,
                dtype=self.dtype_policy,
            )
            for tower, direction in TOWERS.items()
        ]
        for tower in self.towers:
            tower.build((None, None))
        self.built = True

    @property
    def word_embeddings(self) -> tf.Tensor:
        """The table for the output softmax, float32 [V, E]."""
        return tf.convert_to_tensor(self.towers[0].embeddings.word_embeddings)

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        keys: tf.Tensor | None = None,
    ) -> tf.Tensor:
        before, after = (
            tower(
                input_ids, input_mask, segment_ids, seeds.fold_in(keys, i)
            ).sequence_output
            for i, tower in enumerate(self.towers)
        )
        before = self._shifted(before, 1, input_mask)
        after = self._shifted(after, -1, input_mask)
        return tf.concat([before, after], -1)

    def _shifted(
        self, states: tf.Tensor, shift: int, numbers: tf.Tensor
    ) -> tf.Tensor:
        """Shifts states [B, L, H] along the row, not into other documents."""
        moved = tf.roll(states, shift, axis=1)
        if not self.is_packed:
            return moved
        is_same = tf.roll(numbers, shift, axis=1) == numbers
        return tf.where(is_same[..., tf.newaxis], moved, 0.0)


def electra_log_probs(
    disc_logits: tf.Tensor, log_q: tf.Tensor, share: tf.Tensor | float
) -> tf.Tensor:
    """Computes log (D q / (a (1 - D) + q)), a = (1 - share) / share."""
    logits = tf.convert_to_tensor(disc_logits)
    share = tf.convert_to_tensor(share, tf.float64)
    log_a = tf.math.log(1.0 - share) - tf.math.log(share)
    log_a = tf.cast(log_a, logits.dtype)  # -inf: all are replaced
    fake = log_a + tf.math.log_sigmoid(logits)
    rest = tf.maximum(fake, log_q) + tf.math.softplus(-tf.abs(fake - log_q))
    return tf.math.log_sigmoid(-logits) + log_q - rest


def log_probs_of_texts(
    disc_logits: tf.Tensor,
    log_q: tf.Tensor,
    input_mask: tf.Tensor,
    *,
    masking: MaskingConfig,
    max_seq_length: int,
) -> tf.Tensor:
    """Computes `electra_log_probs` of rows [CLS] text [SEP]."""
    num_candidates = tf.reduce_sum(input_mask, -1, keepdims=True) - 2
    share = share_of_replaced(num_candidates, masking, max_seq_length)
    return electra_log_probs(disc_logits, log_q, share)


def share_of_replaced(
    num_candidates: tf.Tensor, masking: MaskingConfig, max_seq_length: int
) -> tf.Tensor:
    """Returns k / m, the share of a row's candidates that training replaces."""
    wanted = tf.cast(num_candidates + 2, tf.float32) * masking.mask_prob_at(1.0)
    most = masking.max_predictions_per_seq(max_seq_length)
    chosen = tf.clip_by_value(tf.round(wanted), 1.0, most)
    share = tf.cast(chosen, tf.float64) / tf.cast(num_candidates, tf.float64)
    return tf.minimum(share, 1.0)


def has_exact_samples(
    objective: ObjectiveConfig, masking: MaskingConfig
) -> bool:
    """Returns whether tokens are replaced by samples of q, each equally."""
    return (
        objective.temperature == 1
        and objective.temperature_end in (None, 1)
        and objective.top_k == 0
        and not objective.disallow_correct
        and masking.masking_strategy != "unigram"
    )
