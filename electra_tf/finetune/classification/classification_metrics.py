"""Scorers of classification and regression, over whole splits.

Shares and correlations are in percent, as the original prints them. Targets
and predictions are class numbers, int [n], or scaled values, float [n].
"""

from collections.abc import Sequence

import numpy as np
import scipy.stats
import sklearn.metrics

from electra_tf.finetune.preprocessing import InputExample
from electra_tf.finetune.scorer import (
    Answers,
    Metrics,
    Outputs,
    Scorer,
    log_softmax,
)

Examples = Sequence[InputExample]

_DEGENERATE_DEVIATION = 1e-4  # targets lie in [0, 1]


def classification_metrics(
    targets: np.ndarray, predictions: np.ndarray
) -> Metrics:
    """Computes all metrics; precision, recall and f1 are of class 1.

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
    """Computes all metrics; a constant side has no correlation and no R2."""
    shares = {"pearson": 0.0, "spearman": 0.0, "r2": 0.0}
    if np.ptp(targets):
        shares["r2"] = sklearn.metrics.r2_score(targets, predictions)
        if np.ptp(predictions):
            for name in ("pearson", "spearman"):
                correlate = getattr(scipy.stats, f"{name}r")
                shares[name] = correlate(targets, predictions).statistic
    shares = {name: 100 * float(value) for name, value in shares.items()}
    return {**shares, "mse": float(np.mean(np.square(targets - predictions)))}


class _TextScorer(Scorer):
    """Scores predictions against targets, both [n]."""

    def __init__(self, metrics: Sequence[str], main_metric: str) -> None:
        self.metric_names = metrics
        self.main_metric = main_metric

    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        metrics = self._metrics(examples, self.predictions(outputs))
        return {**metrics, "loss": float(np.mean(outputs["loss"]))}

    def _metrics(self, examples: Examples, predictions: np.ndarray) -> Metrics:
        values = self.formulas(self.targets(examples), predictions)
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
        super().__init__(metrics, main_metric or metrics[0])
        self.label_list = label_list

    def targets(self, examples: Examples) -> np.ndarray:
        return np.array([self.label_list.index(x.label) for x in examples], int)

    def predictions(self, outputs: Outputs) -> np.ndarray:
        return np.argmax(outputs["logits"], -1)

    def answers(self, outputs: Outputs, examples: Examples) -> Answers:
        labels = self.label_list
        return [
            {
                "eid": example.eid,
                "label": example.label,
                "prediction": labels[int(np.argmax(shares))],
                "probabilities": dict(zip(labels, shares, strict=True)),
            }
            for example, shares in zip(
                examples,
                np.exp(log_softmax(outputs["logits"])).tolist(),
                strict=True,
            )
        ]

    def is_constant(self, outputs: Outputs) -> bool:
        return len(np.unique(self.predictions(outputs))) == 1


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
        super().__init__(metrics, main_metric or "spearman")
        self.min_value, self.max_value = min_value, max_value

    def targets(self, examples: Examples) -> np.ndarray:
        labels = np.array([example.label for example in examples], float)
        return (labels - self.min_value) / (self.max_value - self.min_value)

    def predictions(self, outputs: Outputs) -> np.ndarray:
        return outputs["predictions"].astype(float)

    def answers(self, outputs: Outputs, examples: Examples) -> Answers:
        size = self.max_value - self.min_value
        values = self.min_value + self.predictions(outputs) * size
        values = np.clip(values, self.min_value, self.max_value).tolist()
        return [
            {"eid": x.eid, "label": x.label, "prediction": value}
            for x, value in zip(examples, values, strict=True)
        ]

    def is_constant(self, outputs: Outputs) -> bool:
        answers = np.clip(outputs["predictions"], 0.0, 1.0)
        return float(np.std(answers)) < _DEGENERATE_DEVIATION
