"""Scorers of classification and regression, over whole splits.

Shares and correlations are in percent, as the original prints them. Labels and
predictions are numbers of classes, int [n]; targets are float [n].
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.stats
import sklearn.metrics

from electra_tf.finetune.preprocessing import InputExample
from electra_tf.finetune.scorer import (
    Outputs,
    Scorer,
    log_softmax,
    mean,
    mean_log_probabilities,
)

_DEGENERATE_DEVIATION = 1e-4  # targets lie in [0, 1]


def classification_metrics(
    labels: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """Computes all metrics; precision, recall and f1 are of class 1.

    Differs: the original counts predicted positives also as gold ones, so that
    its recall is its precision.
    """
    of_one, of_all = (
        sklearn.metrics.precision_recall_fscore_support(
            labels,
            predictions,
            labels=classes,
            average="macro",
            zero_division=0,
        )
        for classes in ([1], np.union1d(labels, predictions))
    )
    shares = {
        "accuracy": np.mean(labels == predictions),
        "mcc": sklearn.metrics.matthews_corrcoef(labels, predictions),
        "macro_f1": of_all[2],
        **dict(zip(("precision", "recall", "f1"), of_one, strict=False)),
    }
    return {name: 100 * float(value) for name, value in shares.items()}


def regression_metrics(
    targets: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """Computes all metrics; a constant side has no correlation and no R2."""
    found = {"pearson": 0.0, "spearman": 0.0, "r2": 0.0}
    if np.ptp(targets):
        found["r2"] = sklearn.metrics.r2_score(targets, predictions)
        if np.ptp(predictions):
            for name in ("pearson", "spearman"):
                correlate = getattr(scipy.stats, f"{name}r")
                found[name] = correlate(targets, predictions).statistic
    found = {name: 100 * float(value) for name, value in found.items()}
    return {**found, "mse": float(np.mean(np.square(targets - predictions)))}


class _TextScorer(Scorer):
    """Scores `found` answers against `targets`, both [n]."""

    def score(
        self, outputs: Outputs, examples: Sequence[InputExample]
    ) -> dict[str, float]:
        metrics = self.metrics(self.targets(examples), self.found(outputs))
        return {**metrics, "loss": float(np.mean(outputs["loss"]))}

    def majority(
        self, train: Sequence[InputExample], examples: Sequence[InputExample]
    ) -> dict[str, float]:
        """Computes the metrics of one answer, the best for training rows."""
        targets = self.targets(examples)
        answer = self.typical(self.targets(train))
        return self.metrics(targets, np.full_like(targets, answer))

    def metrics(
        self, targets: np.ndarray, found: np.ndarray
    ) -> dict[str, float]:
        """Computes the metrics of the task."""
        values = self.formulas(targets, found)
        return {name: values[name] for name in self.metric_names}


class ClassificationScorer(_TextScorer):
    """Metrics of a classification."""

    formulas = staticmethod(classification_metrics)

    def __init__(
        self,
        label_list: Sequence[str],
        metrics: Sequence[str] = ("accuracy",),
        main_metric: str = "",
    ) -> None:
        self.label_list = tuple(label_list)
        self.metric_names = tuple(metrics)
        self.main_metric = main_metric or metrics[0]

    def targets(self, examples: Sequence[InputExample]) -> np.ndarray:
        numbers = {label: i for i, label in enumerate(self.label_list)}
        return np.array([numbers[x.label] for x in examples], int)

    def found(self, outputs: Outputs) -> np.ndarray:
        return np.argmax(outputs["logits"], -1)

    def typical(self, targets: np.ndarray) -> float:
        return np.argmax(np.bincount(targets))

    def answers(
        self, outputs: Outputs, examples: Sequence[InputExample]
    ) -> list[dict[str, Any]]:
        probabilities = np.exp(log_softmax(outputs["logits"]))
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
        return len(np.unique(self.found(outputs))) == 1


class RegressionScorer(_TextScorer):
    """Metrics of a regression, of targets scaled to [0, 1]."""

    formulas = staticmethod(regression_metrics)

    def __init__(
        self,
        min_value: float,
        max_value: float,
        metrics: Sequence[str] = ("pearson", "spearman", "mse"),
        main_metric: str = "",
    ) -> None:
        self.min_value, self.max_value = min_value, max_value
        self.metric_names = tuple(metrics)
        self.main_metric = main_metric or "spearman"

    def targets(self, examples: Sequence[InputExample]) -> np.ndarray:
        labels = np.array([example.label for example in examples], float)
        return (labels - self.min_value) / (self.max_value - self.min_value)

    def found(self, outputs: Outputs) -> np.ndarray:
        return outputs["predictions"].astype(float)

    def typical(self, targets: np.ndarray) -> float:
        return np.mean(targets)

    def answers(
        self, outputs: Outputs, examples: Sequence[InputExample]
    ) -> list[dict[str, Any]]:
        size = self.max_value - self.min_value
        values = self.min_value + self.found(outputs) * size
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
