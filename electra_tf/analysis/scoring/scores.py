"""Scores of the tokens of a text; needs no TensorFlow.

Every score is a log-probability of a token in its context. The score of a text
is their sum or, to compare texts of different lengths, their mean:

    discriminator   log P(original), of ELECTRA's discriminator; one pass
    electric        -E, Electric's unnormalised log-probability; one pass
    two_tower       log p(x_t | others) by ELECTRA with two towers, appendix G
                    of the paper; one pass
    mlm             log p(x_t | others) by the network that fills masks, with
                    this token masked; a pass for each token
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

SCORES = ("electric", "two_tower", "discriminator", "mlm")
"""Names of the scores; the first one that a model has is the model's own."""

FLAG_THRESHOLD = 0.5
"""A token is flagged if its P(replaced) is greater: its logit is positive."""


class Repair(NamedTuple):
    """A suggested replacement for a token."""

    token: str
    probability: float


class TokenScore(NamedTuple):
    """A token of a text and its scores."""

    token: str
    start: int
    end: int
    start_byte: int
    end_byte: int
    probability_replaced: float | None
    log_probs: Mapping[str, float]
    repairs: tuple[Repair, ...] = ()

    @property
    def is_flagged(self) -> bool:
        """Whether the discriminator takes the token for a replacement."""
        probability = self.probability_replaced
        return probability is not None and probability > FLAG_THRESHOLD


class TextScores(NamedTuple):
    """A text and the scores of its tokens."""

    text: str
    tokens: tuple[TokenScore, ...]

    def total(self, score: str) -> float:
        """Returns the sum of a score over the tokens, nats."""
        return sum((token.log_probs[score] for token in self.tokens), 0.0)

    def mean(self, score: str) -> float:
        """Returns the mean of a score over the tokens, nats; 0 without any."""
        return self.total(score) / max(len(self.tokens), 1)


NO_ERROR_SCORE = float(np.finfo(np.float32).min)
"""Error score of a word without tokens; scikit-learn refuses infinity."""


class Items(NamedTuple):
    """Items of texts, words or tokens, with error scores and labels."""

    error_score: np.ndarray
    is_error: np.ndarray
    text: np.ndarray

    @property
    def num_texts(self) -> int:
        """Number of texts, up to the last one that has items."""
        return 1 + int(self.text.max(initial=-1))

    def select(self, chosen: np.ndarray) -> "Items":
        """Returns some of the items; texts keep their numbers."""
        return Items(*(values[chosen] for values in self))
