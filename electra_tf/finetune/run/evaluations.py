"""The evaluations of a trial on the dev splits: the best, and when to stop."""

import pathlib
from typing import Any

import numpy as np

from electra_tf.finetune.run.experiment import Experiment
from electra_tf.util import files

Evaluation = dict[str, Any]
"""The "step" of an update, and what `Experiment.evaluate` returned after it."""


class Evaluations:
    """Evaluations of a trial, in the order of their steps."""

    def __init__(self, experiment: Experiment, path: pathlib.Path) -> None:
        self._experiment = experiment
        self._path = path
        self._all: list[Evaluation] = []

    def read(self, step: int) -> None:
        """Reads the evaluations up to the step where the trial stands."""
        if self._path.exists():
            stored = files.read_json(self._path)
            self._all = [e for e in stored if e["step"] <= step]

    def write(self) -> None:
        """Writes the file."""
        files.write_json(self._path, self._all)

    def has(self, step: int) -> bool:
        """Returns whether a step was evaluated."""
        return any(evaluation["step"] == step for evaluation in self._all)

    def add(self, evaluation: Evaluation) -> None:
        """Adds the newest evaluation."""
        self._all.append(evaluation)

    @property
    def last(self) -> Evaluation | None:
        """The newest evaluation; None if there is none."""
        return self._all[-1] if self._all else None

    @property
    def chosen(self) -> Evaluation:
        """The evaluation whose weights the trial ends with."""
        if self._experiment.config.training.checkpoint == "last":
            return self._all[-1]
        rank = self._experiment.rank
        return max(self._all, key=lambda x: rank(x["metrics"]))

    @property
    def patience_is_over(self) -> bool:
        """Whether `--early_stopping` evaluations had no better score."""
        patience = self._experiment.config.training.early_stopping
        if not (patience and self._all):
            return False
        scores = [self._experiment.score(e["metrics"]) for e in self._all]
        return len(scores) - 1 - int(np.argmax(scores)) >= patience
