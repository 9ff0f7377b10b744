"""Metrics of error detection: precision, recall, F0.5 and ROC AUC.

Each of n items, words or tokens, has an error score, a number that is greater
the likelier the item is wrong; one that has none is never flagged. Items of one
text depend on one another, so the bootstrap behind the intervals resamples
texts.

    F0.5 = 1.25 P R / (0.25 P + R)
    AUC  = P(score of a wrong item > score of a right one), ties half
"""

import math
from typing import NamedTuple

import numpy as np

from electra_tf.analysis.reporting.statistics import Interval, bootstrap
from electra_tf.analysis.scoring.scores import NO_ERROR_SCORE, Items
from electra_tf.config.analysis import AnalysisConfig

_BETA2 = 0.25  # precision counts twice as much as recall


class DetectionMetrics(NamedTuple):
    """Metrics of a detector, each with its interval."""

    threshold: float
    precision: Interval
    recall: Interval
    f_half: Interval
    auc: Interval


def f_half(precision: float, recall: float) -> float:
    """Computes F0.5; 0 if precision and recall are both 0."""
    total = _BETA2 * precision + recall
    return (1 + _BETA2) * precision * recall / total if total else 0.0


def curve(items: Items) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes precision and recall at each threshold."""
    from sklearn import metrics

    precision, recall, thresholds = metrics.precision_recall_curve(
        items.is_error, items.error_score
    )
    can_flag = thresholds > NO_ERROR_SCORE
    # The last precision and recall are those of flagging nothing.
    return precision[:-1][can_flag], recall[:-1][can_flag], thresholds[can_flag]


def best_threshold(items: Items) -> float:
    """Returns the threshold with the greatest F0.5; of several, the lowest."""
    figures = {x: f_half(p, r) for p, r, x in zip(*curve(items), strict=True)}
    return float(max(figures, key=figures.get, default=math.inf))


def measure(
    items: Items, threshold: float, config: AnalysisConfig
) -> DetectionMetrics:
    """Measures a detector."""
    counts = _counts(items, items.error_score >= threshold)
    statistics = [
        lambda texts, k=k: _rates(*counts[texts].sum(0))[k] for k in range(3)
    ]
    intervals = (
        bootstrap(statistic, items.num_texts, config)
        for statistic in (*statistics, ResampledAuc(items))
    )
    return DetectionMetrics(threshold, *intervals)


def _counts(items: Items, is_flagged: np.ndarray) -> np.ndarray:
    """Counts the items of each text, int64 [texts, 3]."""
    kinds = (items.is_error & is_flagged, is_flagged, items.is_error)
    counts = [
        np.bincount(items.text, kind, items.num_texts).astype(np.int64)
        for kind in kinds
    ]
    return np.stack(counts, -1)


def _rates(
    hits: int, num_flagged: int, num_errors: int
) -> tuple[float, float, float]:
    """Returns precision, recall and F0.5."""
    precision = hits / num_flagged if num_flagged else 0.0
    recall = hits / num_errors if num_errors else np.nan
    return precision, recall, f_half(precision, recall)


class ResampledAuc:
    """ROC AUC on resampled texts; a statistic for `bootstrap`."""

    def __init__(self, items: Items) -> None:
        order = np.argsort(items.error_score, kind="stable")
        error_score = items.error_score[order]
        is_new = np.diff(error_score, prepend=np.nan) != 0
        self._starts = np.flatnonzero(is_new)  # of runs of equal scores
        self._is_error = items.is_error[order]
        self._text = items.text[order]
        self._num_texts = items.num_texts

    def __call__(self, texts: np.ndarray) -> float:
        """Returns the AUC; NaN if all items are wrong or all are right."""
        times = np.bincount(texts, minlength=self._num_texts)[self._text]
        if not times.size:
            return np.nan
        wrong = np.add.reduceat(times * self._is_error, self._starts)
        right = np.add.reduceat(times * ~self._is_error, self._starts)
        num_pairs = wrong.sum() * right.sum()
        below = np.cumsum(right) - right / 2
        return float(wrong @ below / num_pairs) if num_pairs else np.nan
