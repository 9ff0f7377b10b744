"""What the outputs of a model on a split are worth."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from electra_tf.finetune.task import Example

Outputs = Mapping[str, np.ndarray]


class Scorer(abc.ABC):
    """Turns a model's outputs on a whole split into metrics and answers.

    Differs: the original's scorers are told batches one by one; these are
    functions of all rows.

    Attributes:
      main_metric: the metric that chooses among checkpoints; more is better.
    """

    main_metric: ClassVar[str]

    @abc.abstractmethod
    def score(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> dict[str, float]:
        """Computes the metrics of a labelled split.

        Args:
          outputs: of the head, row by row: "loss", "eid" and what else it
            has.
          examples: of the split, in order.

        Returns:
          Metric -> value; shares and correlations in percent.
        """

    @abc.abstractmethod
    def answers(
        self, outputs: Outputs, examples: Sequence[Example]
    ) -> list[dict[str, Any]]:
        """Returns what is predicted for each example, as JSON values.

        Args:
          outputs: of the head, row by row.
          examples: of the split, in order.
        """

    @abc.abstractmethod
    def has_collapsed(self, outputs: Outputs) -> bool:
        """Says whether every row is answered alike, so that nothing is learnt.

        Args:
          outputs: of the head, row by row.
        """
