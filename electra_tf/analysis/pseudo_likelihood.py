"""Pseudo-log-likelihood of each token, from one pass over the text.

Electric:

    log p(x_t | others) = -E(x)_t                           (unnormalised)

ELECTRA with two towers: of the m tokens of a row that may be replaced, k are,
by samples from q, and one that equals the data counts as real. The best
discriminator of that is a function of the data's p(x_t | others), which solved
for it gives

    p(x_t | others) = D q / (a (1 - D) + q),   a = (m - k) / k

with D the probability that the token is real and q the towers'. For small q
that is the form of Electric, up to a constant. Differs: the paper has (1 - p)
/ p, p the `mask_prob`, for a; in long rows that is the same.

Their sum over a text is its pseudo-log-likelihood. [CLS], [SEP], [MASK] and
padding are never replaced in training, so they have no score.

Source: Clark et al., 2020 (Electric), sections 2 and 4; ELECTRA paper, appendix
G, whose formula is derived here.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.pretrain import pretrain_helpers
from electra_tf.pretrain.objectives.electra import Electra
from electra_tf.pretrain.pretrain_data import Inputs
from electra_tf.pretrain.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError


class TokenScores(NamedTuple):
    """Pseudo-log-likelihood of each token, given all others.

    Attributes:
      log_probs: float32 [B, L], nats; 0 where there is no score.
      weights: float32 [B, L], 1 where there is a score.
    """

    log_probs: tf.Tensor
    weights: tf.Tensor

    def totals(self) -> tf.Tensor:
        """Returns the pseudo-log-likelihood of each row, float32 [B], nats.

        Of a packed row it is the sum over its documents.
        """
        return tf.reduce_sum(self.log_probs, -1)


def score(model: PretrainingModel, inputs: Inputs) -> TokenScores:
    """Scores each token of some text in one pass, without dropout.

    Args:
      model: of the objective `electric`, or of `electra` with two towers.
      inputs: a batch of clean text.

    Raises:
      UserError: if the model has no probability for every token.
    """
    log_probs = _log_probs(model, inputs)
    scored = pretrain_helpers.candidates(inputs, model.vocabulary)
    return TokenScores(
        tf.where(scored, log_probs, 0.0), tf.cast(scored, tf.float32)
    )


def electra_log_probs(
    disc_logits: tf.Tensor, log_q: tf.Tensor, share: tf.Tensor | float
) -> tf.Tensor:
    """Computes log (D q / (a (1 - D) + q)), a = (1 - share) / share.

    Args:
      disc_logits: float32 [B, L], the discriminator's; D = sigmoid(-logit).
      log_q: float32 [B, L], of the generator, nats.
      share: of the tokens that are replaced in training, k / m; float32 [B, 1]
        or one number.

    Returns:
      float32 [B, L], nats.
    """
    log_a = tf.math.log((1.0 - share) / share)
    log_replaced = log_a + tf.math.log_sigmoid(disc_logits)
    rest = tf.reduce_logsumexp(tf.stack([log_replaced, log_q]), 0)
    return tf.math.log_sigmoid(-disc_logits) + log_q - rest


def _log_probs(model: PretrainingModel, inputs: Inputs) -> tf.Tensor:
    objective = model.config.objective
    if objective.traits.answers == "energies":
        return -model.discriminate(inputs)
    if not objective.has_two_towers:
        raise UserError(
            "A score for every token needs objective=electric, or electra "
            "with generator_type=two_tower. Received: "
            f"objective={objective.objective}, "
            f"generator_type={objective.generator_type}."
        )
    _check_samples(model)
    cloze, _ = model.cloze(inputs)
    return electra_log_probs(
        model.discriminate(inputs),
        cloze.log_probs(inputs.input_ids),
        _share(model, inputs),
    )


def _check_samples(model: Electra) -> None:
    """Refuses a training whose samples the formula does not know."""
    objective = model.config.objective
    strategy = model.config.masking.masking_strategy
    fits = (
        objective.temperature == 1,
        objective.temperature_end in (None, 1),
        objective.top_k == 0,
        not objective.disallow_correct,
        strategy != "unigram",
    )
    if not all(fits):
        raise UserError(
            "A score for every token needs a discriminator of unchanged "
            "samples for any of the tokens: temperature=1 throughout, top_k=0, "
            "disallow_correct=False and no masking_strategy=unigram. "
            f"Received: temperature={objective.temperature}, "
            f"temperature_end={objective.temperature_end}, "
            f"top_k={objective.top_k}, "
            f"disallow_correct={objective.disallow_correct}, "
            f"masking_strategy={strategy}."
        )


def _share(model: Electra, inputs: Inputs) -> tf.Tensor:
    """Returns what training chooses of each row's candidates, [B, 1]."""
    allowed = pretrain_helpers.candidates(inputs, model.vocabulary)
    m = tf.reduce_sum(tf.cast(allowed, tf.float32), -1, keepdims=True)
    k = pretrain_helpers.num_chosen(inputs, model.config.masking)
    return tf.minimum(k / tf.maximum(m, 1.0), 1.0)
