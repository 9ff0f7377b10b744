"""Pseudo-log-likelihood of each token, from one forward pass.

Electric: log p(x_t | others) = -E(x)_t, unnormalised. ELECTRA with two towers,
with D the discriminator's probability that a token is real, q that of the
towers, and k of m candidates in a row replaced:

    p(x_t | others) = D q / (a (1 - D) + q),   a = (m - k) / k

A sample that equals the original token counts as real. Differs: the paper has
a = (1 - p) / p with p the `mask_prob`; in long rows that is the same. Tokens
that are never replaced in training, as [CLS], have no score.

Source: Clark et al., 2020 (Electric), sections 2 and 4; ELECTRA paper, appendix
G, whose formula is derived here.
"""

import tensorflow as tf

from electra_tf.config.objectives import MaskingConfig, ObjectiveConfig
from electra_tf.util.errors import UserError


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


def check_samples(objective: ObjectiveConfig, masking: MaskingConfig) -> None:
    """Refuses a training whose sampling breaks the formula of two towers."""
    is_plain = (
        objective.temperature == 1
        and objective.temperature_end in (None, 1)
        and objective.top_k == 0
        and not objective.disallow_correct
    )
    if not is_plain or masking.masking_strategy == "unigram":
        raise UserError(
            "A score for every token needs a training without temperature, "
            "top_k, disallow_correct and masking_strategy=unigram."
        )
