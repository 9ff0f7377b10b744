"""Error scores of words, and labels of errors.

A word's error score is the maximum over its word pieces: if one piece does not
fit, neither does the word. A word without pieces, such as one of control
characters, has the lowest. Items of one text depend on one another: intervals
resample texts.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.analysis.examples import AnnotatedText
from electra_tf.analysis.scores import TextScores, TokenScore

NO_ERROR_SCORE = float(np.finfo(np.float32).min)
"""Error score of a word without tokens; scikit-learn refuses infinity."""

ErrorScore = Callable[[TokenScore], float]
"""A token -> a number that is greater the likelier the token is wrong."""


class Items(NamedTuple):
    """Words or tokens of texts, with error scores and labels; each [n]."""

    error_score: np.ndarray
    is_error: np.ndarray
    text: np.ndarray

    @property
    def num_texts(self) -> int:
        """Number of texts, up to the last one that has items."""
        return 1 + int(self.text.max(initial=-1))


def error_score(score: str) -> ErrorScore:
    """Returns a score's error score: P(replaced), or else -log p in nats."""
    if score == "discriminator":
        return lambda token: token.probability_replaced
    return lambda token: -token.log_probs[score]


def word_of_tokens(text: AnnotatedText, scores: TextScores) -> list[int]:
    """Returns the index of the word of each token."""
    ends = np.cumsum([1 + len(word) for word in text.words]) - 1
    characters = [max(token.start, token.end - 1) for token in scores.tokens]
    return np.searchsorted(ends[:-1], characters, "right").tolist()


def items_of_words(
    texts: Sequence[AnnotatedText],
    scores: Iterable[TextScores],
    error_score: ErrorScore,
) -> Items:
    """Returns the words of texts with their error scores and labels."""
    error_scores = []
    for text, text_scores in zip(texts, scores, strict=True):
        of_words = np.full(len(text.words), NO_ERROR_SCORE)
        values = [error_score(token) for token in text_scores.tokens]
        np.maximum.at(of_words, word_of_tokens(text, text_scores), values)
        error_scores.append(of_words)
    return Items(
        np.concatenate(error_scores),
        np.concatenate([text.is_error for text in texts]).astype(bool),
        np.repeat(np.arange(len(texts)), list(map(len, error_scores))),
    )


def auc(items: Items, texts: np.ndarray) -> float:
    """Computes ROC AUC on resampled texts; NaN without both kinds of items."""
    from sklearn.metrics import roc_auc_score

    weights = np.bincount(texts, minlength=items.num_texts)[items.text]
    if not all(weights[items.is_error == x].any() for x in (False, True)):
        return math.nan
    return roc_auc_score(
        items.is_error, items.error_score, sample_weight=weights
    )
