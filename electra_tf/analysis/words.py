"""Error scores of words and tokens, and metrics of detecting errors.

A word's error score is the maximum over its word pieces: if one piece does not
fit, neither does the word. A word without pieces, such as one of control
characters, is never flagged. Items of one text depend on one another, so the
intervals resample texts.

    F0.5 = 1.25 P R / (0.25 P + R)
    AUC  = P(score of a wrong item > score of a right one), ties half
"""

import bisect
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

    def select(self, chosen: np.ndarray) -> "Items":
        """Returns some of the items; texts keep their numbers."""
        return Items(*(values[chosen] for values in self))

    def times(self, texts: np.ndarray) -> np.ndarray:
        """Counts how often each item is in resampled texts, [n]."""
        return np.bincount(texts, minlength=self.num_texts)[self.text]


def error_score(score: str) -> ErrorScore:
    """Returns a score's error score: P(replaced), or else -log p in nats."""
    if score == "discriminator":
        return lambda token: token.probability_replaced
    return lambda token: -token.log_probs[score]


def word_of_tokens(text: AnnotatedText, scores: TextScores) -> list[int]:
    """Returns the index of the word of each token."""
    ends, last = text.ends, len(text.words) - 1
    characters = [max(token.start, token.end - 1) for token in scores.tokens]
    return [min(bisect.bisect_right(ends, x), last) for x in characters]


def items_of_words(
    texts: Sequence[AnnotatedText],
    scores: Iterable[TextScores],
    error_score: ErrorScore,
) -> Items:
    """Returns the words of texts with their error scores and labels."""
    found = []
    for text, one in zip(texts, scores, strict=True):
        of_words = np.full(len(text.words), NO_ERROR_SCORE)
        values = [error_score(token) for token in one.tokens]
        np.maximum.at(of_words, word_of_tokens(text, one), values)
        found.append(of_words)
    return Items(
        np.concatenate(found),
        np.concatenate([text.is_error for text in texts]).astype(bool),
        np.repeat(np.arange(len(texts)), list(map(len, found))),
    )


def auc(items: Items, texts: np.ndarray) -> float:
    """Computes ROC AUC on resampled texts; NaN without both kinds of items."""
    from sklearn.metrics import roc_auc_score

    times = items.times(texts)
    used = items.select(times > 0)
    if used.is_error.all() or not used.is_error.any():
        return math.nan
    weights = times[times > 0]
    return float(
        roc_auc_score(used.is_error, used.error_score, sample_weight=weights)
    )


def detection(
    items: Items, threshold: float, texts: np.ndarray
) -> tuple[float, float, float]:
    """Computes precision, recall and F0.5 on resampled texts."""
    times, is_flagged = items.times(texts), items.error_score >= threshold
    hits, num_flagged, num_errors = (
        times @ x
        for x in (items.is_error & is_flagged, is_flagged, items.is_error)
    )
    precision = hits / num_flagged if num_flagged else 0.0
    recall = hits / num_errors if num_errors else math.nan
    total = 0.25 * precision + recall
    f_half = 1.25 * precision * recall / total if total else 0.0
    return precision, recall, f_half


def precision_recall(items: Items) -> tuple[np.ndarray, ...]:
    """Computes precision and recall at each threshold that flags a word."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, thresholds = precision_recall_curve(
        items.is_error, items.error_score
    )
    can_flag = thresholds > NO_ERROR_SCORE
    # The last precision and recall are those of flagging nothing.
    return precision[:-1][can_flag], recall[:-1][can_flag], thresholds[can_flag]


def best_threshold(items: Items) -> float:
    """Returns the threshold with the greatest F0.5; of several, the lowest."""
    precision, recall, thresholds = precision_recall(items)
    if not thresholds.size:
        return math.inf
    total = 0.25 * precision + recall
    f_half = 1.25 * precision * recall / np.where(total > 0, total, 1)
    return float(thresholds[f_half.argmax()])
