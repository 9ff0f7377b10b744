"""Scores of a text by token; needs no TensorFlow.

Every score is a log-probability of a token in its context, so that the score
of a text is their sum, and their mean where texts of different lengths are
compared:

    discriminator   log P(original), of ELECTRA's discriminator; one pass
    electric        -E, Electric's unnormalised log-probability; one pass
    two_tower       log p(x_t | others) by ELECTRA with two towers, appendix G
                    of the paper; one pass
    mlm             log p(x_t | others) by the network that fills masks, of a
                    text with this token masked; a pass for each token
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

SCORES = ("electric", "two_tower", "discriminator", "mlm")
"""Names of the scores; of those that a model can give the first is its own."""


class Repair(NamedTuple):
    """A token that may have stood in place of another.

    Attributes:
      token: a word piece.
      probability: by the network that fills masks, of the text with the token
        masked.
    """

    token: str
    probability: float


class TokenScore(NamedTuple):
    """A token of a text and what a model says of it.

    Attributes:
      token: the word piece.
      start: of its first character in the text.
      end: one past its last character.
      start_byte: of its first byte in the text's UTF-8.
      end_byte: one past its last byte.
      probability_replaced: by the discriminator, 0 to 1; None of a model that
        has none.
      log_probs: score -> nats.
      repairs: likeliest tokens in its place, the likeliest first.
    """

    token: str
    start: int
    end: int
    start_byte: int
    end_byte: int
    probability_replaced: float | None
    log_probs: Mapping[str, float]
    repairs: tuple[Repair, ...] = ()


class TextScores(NamedTuple):
    """A text and the scores of its tokens.

    Attributes:
      text: as it was given.
      tokens: of all of it, without [CLS] and [SEP].
    """

    text: str
    tokens: tuple[TokenScore, ...]

    def total(self, score: str) -> float:
        """Returns the sum of a score over the tokens, nats."""
        return sum(token.log_probs[score] for token in self.tokens)

    def mean(self, score: str) -> float:
        """Returns the mean of a score over the tokens, nats; 0 of none."""
        return self.total(score) / max(len(self.tokens), 1)


class Items(NamedTuple):
    """Items of texts, words or tokens, and what is true of them.

    Attributes:
      suspicion: float [n], greater the likelier an item is wrong; where it is
        calibrated, the logit of P(replaced).
      is_error: bool [n].
      text: int [n], from 0, the text of each.
    """

    suspicion: np.ndarray
    is_error: np.ndarray
    text: np.ndarray

    @property
    def num_texts(self) -> int:
        """Number of texts up to the last that has items."""
        return 1 + int(self.text.max(initial=-1))

    def select(self, chosen: np.ndarray) -> "Items":
        """Returns some of the items, of the same texts.

        Args:
          chosen: bool [n].
        """
        return Items(*(values[chosen] for values in self))
