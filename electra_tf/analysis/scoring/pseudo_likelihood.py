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

import numpy as np

from electra_tf.config.masking import MaskingConfig
from electra_tf.configure_pretraining import PretrainingConfig
from electra_tf.util.errors import UserError


def electra_log_probs(
    disc_logits: np.ndarray, log_q: np.ndarray, share: np.ndarray | float
) -> np.ndarray:
    """Computes log (D q / (a (1 - D) + q)), a = (1 - share) / share.

    Args:
      disc_logits: float [..., L], the discriminator's; D = sigmoid(-logit).
      log_q: float [..., L], of the generator, nats.
      share: of the tokens that are replaced in training, k / m, in (0, 1];
        float [..., 1] or one number.

    Returns:
      float64 [..., L], nats.
    """
    logits, log_q = (np.asarray(x, np.float64) for x in (disc_logits, log_q))
    share = np.asarray(share, np.float64)
    with np.errstate(divide="ignore"):
        log_a = np.log(1.0 - share) - np.log(share)  # -inf: all are replaced
    rest = np.logaddexp(log_a + log_sigmoid(logits), log_q)
    return log_sigmoid(-logits) + log_q - rest


def log_sigmoid(x: np.ndarray) -> np.ndarray:
    """Computes -log(1 + exp(-x)) without overflow, in the precision of x."""
    return -np.logaddexp(0.0, -x)


def share_of_replaced(
    num_candidates: np.ndarray, masking: MaskingConfig, max_seq_length: int
) -> np.ndarray:
    """Returns what training replaces of the candidates of a row, k / m.

    Args:
      num_candidates: int [...], m, the tokens of a text; at least 1. A row has
        [CLS] and [SEP] besides.
      masking: of the training.
      max_seq_length: tokens of its longest rows.

    Returns:
      float64 [...], at most 1.
    """
    wanted = (num_candidates + 2) * masking.mask_prob_at(1.0)
    most = masking.max_predictions_per_seq(max_seq_length)
    chosen = np.clip(np.round(wanted), 1, most)
    return np.minimum(chosen / num_candidates, 1.0)


def check_samples(config: PretrainingConfig) -> None:
    """Refuses a training whose samples the formula of two towers misses.

    Args:
      config: of a training of two towers and a discriminator.

    Raises:
      UserError: naming the settings.
    """
    objective = config.objective
    strategy = config.masking.masking_strategy
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
