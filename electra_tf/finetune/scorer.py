"""Metrics of classification, regression and tagging, over whole splits.

Shares and correlations are in percent, as the original prints them; the metrics
of question answering are in `qa/qa_metrics.py`. Differs: the original's scorers
accumulate batches.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
import sklearn.metrics

from electra_tf.finetune.tagging.spans import get_span_labels

Outputs = Mapping[str, np.ndarray]
"""What a head returns for the rows of a split."""
Metrics = dict[str, float]
Answers = list[dict[str, Any]]
"""The prediction for each example, as JSON values."""


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Computes the logarithms of class probabilities, float64."""
    return scipy.special.log_softmax(logits.astype(np.float64), -1)


def classification_metrics(
    targets: np.ndarray, predictions: np.ndarray
) -> Metrics:
    """Computes all metrics of class numbers [n]; f1 etc. are of class 1.

    Differs: the original counts predicted positives also as gold ones, so that
    its recall is its precision.
    """
    pair = targets, predictions
    precision, recall, f1, _ = sklearn.metrics.precision_recall_fscore_support(
        *pair, labels=[1], average="macro", zero_division=0
    )
    shares = {
        "accuracy": sklearn.metrics.accuracy_score(*pair),
        "mcc": sklearn.metrics.matthews_corrcoef(*pair),
        "macro_f1": sklearn.metrics.f1_score(
            *pair, average="macro", zero_division=0
        ),
        "precision": precision,
        "recall": recall,
        "f1": f1,
    }
    return {name: 100 * float(value) for name, value in shares.items()}


def regression_metrics(targets: np.ndarray, predictions: np.ndarray) -> Metrics:
    """Computes all metrics of scaled values [n], 0 if a side is constant."""
    shares = {"pearson": 0.0, "spearman": 0.0, "r2": 0.0}
    if np.ptp(targets):
        shares["r2"] = sklearn.metrics.r2_score(targets, predictions)
        if np.ptp(predictions):
            for name in ("pearson", "spearman"):
                correlate = getattr(scipy.stats, f"{name}r")
                shares[name] = correlate(targets, predictions).statistic
    shares = {name: 100 * float(value) for name, value in shares.items()}
    return {**shares, "mse": float(np.mean(np.square(targets - predictions)))}


def tagging_metrics(
    golden: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    is_spans: bool,
    original_spans: bool = False,
) -> Metrics:
    """Computes the accuracy of words, and the F1 of whole spans.

    Differs: the original does not score words that it cut off.
    """
    hits = [
        x == y
        for pair in zip(golden, predicted, strict=True)
        for x, y in zip(*pair, strict=True)
    ]
    accuracy = {"accuracy": 100 * sum(hits) / max(1, len(hits))}
    if not is_spans:
        return accuracy
    golden, predicted = (
        {
            (number, *span)
            for number, tags in enumerate(sentences)
            for span in get_span_labels(tags, original=original_spans)
        }
        for sentences in (golden, predicted)
    )
    num_hits = len(golden & predicted)
    precision = 100 * num_hits / max(1, len(predicted))
    recall = 100 * num_hits / max(1, len(golden))
    f1 = 2 * precision * recall / (precision + recall) if num_hits else 0.0
    return {"f1": f1, "precision": precision, "recall": recall, **accuracy}
