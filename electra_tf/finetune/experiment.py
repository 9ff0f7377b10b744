"""What all trials of a run have in common, and what an evaluation says."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.features import Features
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.task import Example, Task
from electra_tf.model.weights import Weights

Metrics = dict[str, dict[str, float]]
"""Split -> metric -> value."""


class Split(NamedTuple):
    """Examples and their rows."""

    examples: Sequence[Example]
    features: Features


class TaskData(NamedTuple):
    """A task and its rows.

    Attributes:
      task: the task.
      train: the rows to learn from; None if nothing is trained.
      dev: split -> its examples, the one that chooses first.
    """

    task: Task
    train: Features | None
    dev: Mapping[str, Split]


class Experiment(NamedTuple):
    """What all trials have in common.

    Attributes:
      config: the whole configuration.
      tasks: with their rows.
      weights: of the encoder, as `pretrained.read` returns them.
      strategy: under which the variables are made.
    """

    config: FinetuningConfig
    tasks: tuple[TaskData, ...]
    weights: Weights
    strategy: tf.distribute.Strategy

    @property
    def num_train_steps(self) -> int:
        """Updates of a trial.

        Differs: the original counts the rows it fills the last batch up with.
        """
        batch_size = self.config.training.train_batch_size
        return max(1, int(self._num_rows * self._num_epochs / batch_size))

    @property
    def evaluation_steps(self) -> list[int]:
        """The updates after which the dev splits are evaluated."""
        count = self.config.training.num_evaluations
        count = count or max(1, round(self._num_epochs))
        last = self.num_train_steps
        return sorted(
            {max(1, round(last * i / count)) for i in range(1, count + 1)}
        )

    def dev_splits(self) -> Iterator[tuple[str, Task, Split]]:
        """Yields the name that metrics have, the task and the split."""
        for data in self.tasks:
            for name, split in data.dev.items():
                yield name, data.task, split

    def score(self, metrics: Mapping[str, Mapping[str, float]]) -> float:
        """Returns the value that chooses among checkpoints.

        Args:
          metrics: split -> metric -> value.
        """
        (data,) = self.tasks
        first = next(iter(data.dev))
        return metrics[first][data.task.get_scorer().main_metric]

    def evaluate(self, model: FinetuningModel) -> dict[str, Any]:
        """Evaluates a model on all dev splits.

        Returns:
          "metrics", split -> metric -> value; and "collapsed", whether every
          row of the first split is answered alike.
        """
        metrics, collapsed = {}, []
        batch_size = self.config.runtime.eval_batch_size
        for name, task, split in self.dev_splits():
            scorer = task.get_scorer()
            outputs = model.outputs_of(task.name, split.features, batch_size)
            metrics[name] = scorer.score(outputs, split.examples)
            collapsed.append(scorer.has_collapsed(outputs))
        return {"collapsed": collapsed[0], "metrics": metrics}

    @property
    def _num_rows(self) -> int:
        return sum(x.train.num_rows for x in self.tasks if x.train is not None)

    @property
    def _num_epochs(self) -> float:
        """Times a row is seen, in the mean over rows."""
        seen = sum(
            x.train.num_rows * x.task.num_train_epochs
            for x in self.tasks
            if x.train is not None
        )
        return seen / max(1, self._num_rows)
