"""Scorers: metrics and answers of a model's outputs on a split."""

import abc
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

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


class Scorer(abc.ABC):
    """Turns a model's outputs on a whole split into metrics and answers.

    Differs: the original's scorers accumulate batches; these are functions of
    all rows.
    """

    main_metric: str

    @abc.abstractmethod
    def score(self, outputs: Outputs, examples: Examples) -> Metrics:
        """Computes the metrics of a labelled split."""

    @abc.abstractmethod
    def answers(self, outputs: Outputs, examples: Examples) -> Answers:
        """Returns what is predicted for each example."""

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
