"""Metrics of one's own tasks: all that a kind offers, one of which chooses."""

from collections.abc import Sequence

import numpy as np

from electra_tf.finetune.classification.classification_metrics import (
    ClassificationScorer,
    RegressionScorer,
    matthews_correlation,
    precision_recall_f1,
)


def macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the mean of the F1 of all classes, in percent.

    Args:
      labels: int [n].
      predictions: int [n].
    """
    classes = np.union1d(labels, predictions)
    scores = [precision_recall_f1(labels, predictions, c)[2] for c in classes]
    return float(np.mean(scores))


def r2(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the share of the variance that is explained, in percent.

    Args:
      targets: float [n].
      predictions: float [n].

    Returns:
      0 where all targets are the same.
    """
    total = float(np.sum(np.square(targets - targets.mean())))
    error = float(np.sum(np.square(targets - predictions)))
    return 100 * (1 - error / total) if total else 0.0


class OwnClassificationScorer(ClassificationScorer):
    """Metrics of a classification.

    Args:
      label_list: the labels, in the order of the logits.
      main_metric: the one that chooses; "" for the accuracy.
    """

    def __init__(self, label_list: Sequence[str], main_metric: str) -> None:
        super().__init__(label_list)
        self.main_metric = main_metric or "accuracy"

    def metrics(
        self, labels: np.ndarray, predictions: np.ndarray
    ) -> dict[str, float]:
        metrics = {
            **super().metrics(labels, predictions),
            "macro_f1": macro_f1(labels, predictions),
            "mcc": matthews_correlation(labels, predictions),
        }
        if len(self.label_list) == 2:
            names = ("precision", "recall", "f1")
            values = precision_recall_f1(labels, predictions)
            metrics |= dict(zip(names, values, strict=True))
        return metrics


class OwnRegressionScorer(RegressionScorer):
    """Metrics of a regression.

    Args:
      min_value: the least label.
      max_value: the greatest.
      main_metric: the one that chooses; "" for Spearman's correlation.
    """

    def __init__(
        self, min_value: float, max_value: float, main_metric: str
    ) -> None:
        super().__init__(min_value, max_value)
        self.main_metric = main_metric or "spearman"

    def metrics(
        self, targets: np.ndarray, predictions: np.ndarray
    ) -> dict[str, float]:
        metrics = super().metrics(targets, predictions)
        return {**metrics, "r2": r2(targets, predictions)}
