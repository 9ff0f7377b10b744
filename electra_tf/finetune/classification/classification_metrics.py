"""Metrics of classification and regression: functions of whole splits.

Shares and correlations are in percent, as the original prints them. In
classification, labels and predictions are numbers of classes, int [n]; in
regression, targets and predictions are float [n].
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from electra_tf.finetune.examples import InputExample
from electra_tf.finetune.scorer import (
    Outputs,
    Scorer,
    log_softmax,
    mean,
    mean_log_probabilities,
)

_DEGENERATE_DEVIATION = 1e-4  # targets lie in [0, 1]


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the share of right predictions, in percent."""
    return 100.0 * float(np.mean(labels == predictions))


def precision_recall_f1(
    labels: np.ndarray, predictions: np.ndarray, positive: int = 1
) -> tuple[float, float, float]:
    """Computes precision, recall and F1 of one class, in percent.

    Differs: the original counts predicted positives also as gold ones, so that
    its recall is its precision.
    """
    hits = float(np.sum((labels == positive) & (predictions == positive)))
    precision = hits / max(1.0, float(np.sum(predictions == positive)))
    recall = hits / max(1.0, float(np.sum(labels == positive)))
    mean = 2 * precision * recall / (precision + recall) if hits else 0.0
    return 100 * precision, 100 * recall, 100 * mean


def matthews_correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Computes Matthews' correlation coefficient, in percent.

    Source: Gorodkin, 2004, for any number of classes; 0 if either side has
    but one.
    """
    # From counts, as indicators [n, classes] of many classes fill the memory.
    _, ids = np.unique([labels, predictions], return_inverse=True)
    sides = ids.reshape(2, -1)
    num_classes, size = 1 + ids.max(), sides.shape[1]
    x, y = (np.bincount(side, minlength=num_classes) for side in sides)
    covariance = size * int(np.sum(sides[0] == sides[1])) - int(x @ y)
    variances = (size**2 - int(x @ x)) * (size**2 - int(y @ y))
    return 100.0 * covariance / math.sqrt(variances) if variances else 0.0


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Computes the linear correlation, in percent; 0 if a side is constant."""
    if not (np.ptp(x) and np.ptp(y)):  # means are rounded
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt(np.sum(np.square(x)) * np.sum(np.square(y))))
    return 100.0 * (float(np.sum(x * y)) / norm) if norm else 0.0


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Computes the correlation of ranks, in percent; equals share a rank."""
    return pearson(_ranks(x), _ranks(y))


def macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the mean of the F1 of all classes, in percent."""
    classes = np.union1d(labels, predictions)
    scores = [precision_recall_f1(labels, predictions, c)[2] for c in classes]
    return float(np.mean(scores))


def r2(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the share of the variance that is explained, in percent."""
    if not np.ptp(targets):  # the mean is rounded
        return 0.0
    total = float(np.sum(np.square(targets - targets.mean())))
    error = float(np.sum(np.square(targets - predictions)))
    return 100 * (1 - error / total)


def mean_squared_error(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the mean squared error."""
    return float(np.mean(np.square(targets - predictions)))


Metric = Callable[[np.ndarray, np.ndarray], float]

CLASSIFICATION: Mapping[str, Metric] = {
    "accuracy": accuracy,
    "mcc": matthews_correlation,
    "macro_f1": macro_f1,
    "precision": lambda x, y: precision_recall_f1(x, y)[0],
    "recall": lambda x, y: precision_recall_f1(x, y)[1],
    "f1": lambda x, y: precision_recall_f1(x, y)[2],
}
"""Metrics of classification; the last three are of the second label."""

REGRESSION: Mapping[str, Metric] = {
    "pearson": pearson,
    "spearman": spearman,
    "mse": mean_squared_error,
    "r2": r2,
}
"""Metrics of regression, of targets scaled to [0, 1] and raw predictions."""


class ClassificationScorer(Scorer):
    """Metrics of a classification."""

    def __init__(
        self,
        label_list: Sequence[str],
        metrics: Sequence[str] = ("accuracy",),
        main_metric: str = "",
    ) -> None:
        self.label_list = tuple(label_list)
        self.metric_names = tuple(metrics)
        self.main_metric = main_metric or metrics[0]

    def score(
        self, outputs: Outputs, examples: Sequence[InputExample]
    ) -> dict[str, float]:
        labels = self._class_ids(examples)
        predictions = np.argmax(outputs["logits"], -1)
        metrics = self.metrics(labels, predictions)
        return {**metrics, "loss": float(np.mean(outputs["loss"]))}

    def majority(
        self, train: Sequence[InputExample], examples: Sequence[InputExample]
    ) -> dict[str, float]:
        """Computes the metrics of the most frequent training label."""
        counts = np.bincount(self._class_ids(train))
        labels = self._class_ids(examples)
        return self.metrics(labels, np.full_like(labels, np.argmax(counts)))

    def _class_ids(self, examples: Sequence[InputExample]) -> np.ndarray:
        """Returns the numbers of the labels, int [n]."""
        numbers = {label: i for i, label in enumerate(self.label_list)}
        return np.array([numbers[x.label] for x in examples], int)

    def metrics(
        self, labels: np.ndarray, predictions: np.ndarray
    ) -> dict[str, float]:
        """Computes the metrics."""
        return {
            name: CLASSIFICATION[name](labels, predictions)
            for name in self.metric_names
        }

    def answers(
        self, outputs: Outputs, examples: Sequence[InputExample]
    ) -> list[dict[str, Any]]:
        logits = outputs["logits"]
        probabilities = np.exp(log_softmax(logits))
        return [
            {
                "eid": example.eid,
                "label": example.label,
                "prediction": self.label_list[int(np.argmax(row))],
                "probabilities": dict(
                    zip(self.label_list, row.tolist(), strict=True)
                ),
            }
            for example, row in zip(examples, probabilities, strict=True)
        ]

    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        logits = mean_log_probabilities([x["logits"] for x in outputs])
        return {**outputs[0], "logits": logits, "loss": mean(outputs, "loss")}

    def is_constant(self, outputs: Outputs) -> bool:
        return len(np.unique(np.argmax(outputs["logits"], -1))) == 1


class RegressionScorer(Scorer):
    """Metrics of a regression."""

    def __init__(
        self,
        min_value: float,
        max_value: float,
        metrics: Sequence[str] = ("pearson", "spearman", "mse"),
        main_metric: str = "",
    ) -> None:
        self.min_value = min_value
        self.max_value = max_value
        self.metric_names = tuple(metrics)
        self.main_metric = main_metric or "spearman"

    def score(
        self, outputs: Outputs, examples: Sequence[InputExample]
    ) -> dict[str, float]:
        targets = self._targets(examples)
        predictions = outputs["predictions"].astype(float)
        metrics = self.metrics(targets, predictions)
        return {**metrics, "loss": float(np.mean(outputs["loss"]))}

    def majority(
        self, train: Sequence[InputExample], examples: Sequence[InputExample]
    ) -> dict[str, float]:
        """Computes the metrics of the mean training value."""
        targets = self._targets(examples)
        mean_target = np.mean(self._targets(train))
        return self.metrics(targets, np.full_like(targets, mean_target))

    def _targets(self, examples: Sequence[InputExample]) -> np.ndarray:
        """Returns the labels, scaled from their range to [0, 1], float [n]."""
        labels = np.array([example.label for example in examples], float)
        return (labels - self.min_value) / (self.max_value - self.min_value)

    def metrics(
        self, targets: np.ndarray, predictions: np.ndarray
    ) -> dict[str, float]:
        """Computes the metrics."""
        return {
            name: REGRESSION[name](targets, predictions)
            for name in self.metric_names
        }

    def answers(
        self, outputs: Outputs, examples: Sequence[InputExample]
    ) -> list[dict[str, Any]]:
        scaled = outputs["predictions"].astype(float)
        values = self.min_value + scaled * (self.max_value - self.min_value)
        values = np.clip(values, self.min_value, self.max_value)
        return [
            {"eid": x.eid, "label": x.label, "prediction": float(value)}
            for x, value in zip(examples, values, strict=True)
        ]

    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        means = {name: mean(outputs, name) for name in ("predictions", "loss")}
        return {**outputs[0], **means}

    def is_constant(self, outputs: Outputs) -> bool:
        answers = np.clip(outputs["predictions"], 0.0, 1.0)
        return float(np.std(answers)) < _DEGENERATE_DEVIATION


def _ranks(x: np.ndarray) -> np.ndarray:
    """Returns each value's rank, float [n]; equal values have their mean."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
