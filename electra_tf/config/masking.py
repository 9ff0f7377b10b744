"""The configuration of masking; needs no TensorFlow."""

import dataclasses
from typing import TypeVar

from electra_tf.util.config_fields import Checked, bounded, one_of
from electra_tf.util.errors import UserError

Numbers = TypeVar("Numbers")  # a float or a tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig(Checked):
    """Selection of the masked tokens, and their replacement in the input."""

    mask_prob: float = bounded("in (0, 1)", 0.15)
    """Share of a row's tokens that are selected for prediction."""

    mask_prob_end: float | None = bounded("in (0, 1)", None)
    """Share at the end of the training, to which `mask_prob` changes linearly;
    also used in evaluation. Default: `mask_prob` throughout."""

    masking_strategy: str = one_of(
        "uniform", "whole_word", "ngram", "span", "unigram"
    )
    """Units of selection. uniform: single word pieces; whole_word: all pieces
    of a word; ngram: up to `max_ngram` consecutive words; span: a span of words
    (3.8 pieces on average); unigram: single word pieces, rare ones more often
    (`unigram_alpha`)."""

    max_ngram: int = bounded("at least 1", 3)
    """Words in the longest n-gram; n-grams are drawn with weights 1 / n."""

    unigram_alpha: float = bounded("at least 0", 0.5)
    """Exponent of the strategy unigram: a word piece that is n times as
    frequent as another has 1 / n ** unigram_alpha of its selection weight."""

    mask_token_prob: float = bounded("in [0, 1]", 0.85)
    """Share of the selected tokens that are replaced by [MASK]; the others stay
    unchanged, except for `random_token_prob`."""

    random_token_prob: float = bounded("in [0, 1]", 0.0)
    """Share of the selected tokens that are replaced by a random word piece."""

    original_masking: bool = False
    """Select with replacement, as the original does: 13.8 % instead of 15 % of
    the tokens are then selected. Only with the strategy uniform."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mask_token_prob + self.random_token_prob > 1:
            raise UserError(
                "`mask_token_prob` + `random_token_prob` must be at most 1. "
                f"Received: mask_token_prob={self.mask_token_prob}, "
                f"random_token_prob={self.random_token_prob}."
            )
        if self.original_masking and self.masking_strategy != "uniform":
            raise UserError(
                "`original_masking` must be used with "
                "masking_strategy=uniform: the original draws single word "
                "pieces, with replacement. "
                f"Received: masking_strategy={self.masking_strategy!r}. Leave "
                "one of the two out."
            )

    def mask_prob_at(self, progress: Numbers) -> Numbers | float:
        """Returns the share of the tokens that are selected."""
        if self.mask_prob_end is None:
            return self.mask_prob
        return (1 - progress) * self.mask_prob + progress * self.mask_prob_end

    def max_predictions_per_seq(self, max_seq_length: int) -> int:
        """Returns N, the number of slots for selected tokens in a row."""
        largest = max(self.mask_prob, self.mask_prob_end or 0.0)
        return min(max_seq_length, int((largest + 0.005) * max_seq_length))
