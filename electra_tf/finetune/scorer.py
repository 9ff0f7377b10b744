"""Scorers: metrics, answers and ensembles of a model's outputs on a split."""

import abc
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import special

from electra_tf.finetune.preprocessing import Example

Outputs = Mapping[str, np.ndarray]
"""What a head returns for the rows of a split."""
Examples = Sequence[Example]
Metrics = dict[str, float]
Answers = list[dict[str, Any]]
"""What is predicted for each example, as JSON values."""


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Computes the logarithms of class probabilities, float64."""
    return special.log_softmax(logits.astype(np.float64), -1)


def mean_log_probabilities(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Averages class probabilities over models."""
    total = special.logsumexp([log_softmax(part) for part in logits], 0)
    return (total - np.log(len(logits))).astype(np.float32)


def mean(outputs: Sequence[Outputs], name: str) -> np.ndarray:
    """Averages one of the outputs over models."""
    return np.mean([part[name] for part in outputs], 0, dtype=np.float32)


class Scorer(abc.ABC):
    """Turns a model's outputs on a whole split into metrics and answers.

    Differs: the original's scorers accumulate batches; these are functions of
    all rows.
    """

    main_metric: str
    ensemble_outputs: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        """Computes the metrics of a labelled split."""

    def majority(self, train: Examples, examples: Examples) -> Metrics:
        """Computes the metrics of a majority baseline, which needs no model."""
        del train, examples
        return {}

    @abc.abstractmethod
    def answers(self, outputs: Outputs, examples: Examples) -> Answers:
        """Returns what is predicted for each example."""

    @abc.abstractmethod
    def combine(self, outputs: Sequence[Outputs]) -> Outputs:
        """Makes the outputs of an ensemble: means over its models."""

    @abc.abstractmethod
    def is_constant(self, outputs: Outputs) -> bool:
        """Returns whether all rows have the same answer."""

    def is_degenerate(self, outputs: Outputs, examples: Examples) -> bool:
        """Returns whether all rows get one answer although labels differ."""
        labels = {label for x in examples for label in self.labels_of(x)}
        return len(labels) > 1 and self.is_constant(outputs)

    def labels_of(self, example: Example) -> Iterable[Hashable]:
        """Returns the gold labels of an example."""
        return (example.label,)
