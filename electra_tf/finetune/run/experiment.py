"""What all trials of a run have in common, and what an evaluation says."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint.weights import Weights
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.examples import Example
from electra_tf.finetune.features import Features
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.run.fingerprints import Digests
from electra_tf.finetune.run.report import ALL_TASKS, MEAN
from electra_tf.finetune.scorer import Scorer
from electra_tf.finetune.task import Task
from electra_tf.util.errors import UserError
from electra_tf.util.interleaving import UNIT, interleave_schedule

_RARE = 0.05
"""Share of the updates that is worth a length of rows of its own: tracing an
update takes as long as dozens of them."""


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
      majority: split, dev or labelled test -> the metrics of answers that need
        no model, see `Scorer.majority`; empty if nothing is trained.
    """

    task: Task
    train: Features | None
    dev: Mapping[str, Split]
    majority: Mapping[str, Mapping[str, float]] = MappingProxyType({})


class Experiment(NamedTuple):
    """What all trials have in common.

    Attributes:
      config: the whole configuration.
      tasks: with their rows.
      weights: of the encoder, as `pretrained.read` returns them.
      strategy: under which the variables are made.
      digests: of encoder and data.
      unset: what null stands for in a `config.json` of earlier versions.
    """

    config: FinetuningConfig
    tasks: tuple[TaskData, ...]
    weights: Weights
    strategy: tf.distribute.Strategy
    digests: Digests
    unset: Mapping[str, Any] = MappingProxyType({})

    @property
    def num_train_steps(self) -> int:
        """Updates of a trial.

        Differs: the original counts the rows it fills the last batch up with.
        """
        batch_size = self.config.training.train_batch_size
        return max(1, int(sum(self._seen) / batch_size))

    @property
    def evaluation_steps(self) -> list[int]:
        """The updates after which the dev splits are evaluated."""
        count = self.config.training.num_evaluations
        count = count or max(1, round(self._num_epochs))
        last = self.num_train_steps
        return sorted(
            {max(1, round(last * i / count)) for i in range(1, count + 1)}
        )

    def turns(self, seed: int) -> np.ndarray:
        """Returns which task gives the batch of each update.

        A batch has rows of one task, so that each task has its own length of
        rows, and only its own head to compute. In proportion (alpha = 1), each
        task is trained for its own number of epochs.

        Differs: the original mixes the rows of all tasks in a batch, and fills
        all up to the same length.

        Args:
          seed: of the trial.

        Returns:
          int32 [num_train_steps], numbers of `tasks`.
        """
        ends = np.cumsum(self.shares(), -1) * UNIT
        return interleave_schedule(
            ends.astype(np.int64), self.num_train_steps, seed
        )

    def shares(self) -> np.ndarray:
        """Returns the share of each task in each update, [updates, tasks]."""
        config = self.config.sampling
        first, last = config.task_sampling_alpha, config.task_sampling_alpha_end
        last = first if last is None else last
        alphas = np.linspace(first, last, self.num_train_steps)
        weights = np.array(self._seen) ** alphas[:, np.newaxis]
        return weights / weights.sum(-1, keepdims=True)

    def lengths(self, seed: int) -> np.ndarray:
        """Returns the tokens in the rows of each update, padding included.

        Args:
          seed: of the trial.

        Returns:
          int64 [num_train_steps]; few different ones.
        """
        turns, size = self.turns(seed), self.config.training.train_batch_size
        lengths = np.zeros(turns.size, np.int64)
        for number, data in enumerate(self.tasks):
            is_its = turns == number
            lengths[is_its] = data.train.training_lengths(
                size, is_its.sum(), seed, least=_RARE * turns.size
            )
        return lengths

    def check_shares(self) -> None:
        """Refuses tasks that would get no update.

        Raises:
          UserError: naming the first.
        """
        counts = self.shares().sum(0)
        for data, count in zip(self.tasks, counts, strict=True):
            if count < 1:
                raise UserError(
                    "Each task must have an update of its own. Received: "
                    f"{count:.2f} of {self.num_train_steps} for "
                    f"{data.task.name}. Set a lower --task_sampling_alpha."
                )

    def dev_splits(self) -> Iterator[tuple[str, Task, Split]]:
        """Yields the name that metrics have, the task and the split."""
        for data in self.tasks:
            for name, split in data.dev.items():
                yield self.split_name(data.task, name), data.task, split

    def majority(self) -> dict[str, Mapping[str, float]]:
        """Returns what answers without a model are worth: split -> metrics.

        Splits are named as in the metrics of a trial.
        """
        return {
            self.split_name(data.task, split): metrics
            for data in self.tasks
            for split, metrics in data.majority.items()
            if metrics
        }

    def score(self, metrics: Mapping[str, Mapping[str, float]]) -> float:
        """Returns the value that chooses among checkpoints.

        It is the main metric of the first dev split; of several tasks, the
        mean over tasks.

        Args:
          metrics: split -> metric -> value.
        """
        values = [
            found[scorer.main_metric] for scorer, found in self._first(metrics)
        ]
        return float(np.mean(values))

    def rank(
        self, metrics: Mapping[str, Mapping[str, float]]
    ) -> tuple[float, ...]:
        """Returns what orders checkpoints, the greatest being the best.

        The score; of equals the tie metrics that there are; then the lower
        loss. Each is a mean over tasks, of their first dev splits.

        Args:
          metrics: split -> metric -> value.
        """
        firsts = self._first(metrics)
        ties = [
            found[name]
            for scorer, found in firsts
            for name in scorer.tie_metrics
            if name in found
        ]
        loss = np.mean([found["loss"] for _, found in firsts])
        return self.score(metrics), float(np.mean(ties or [0.0])), -float(loss)

    def _first(
        self, metrics: Mapping[str, Mapping[str, float]]
    ) -> list[tuple[Scorer, Mapping[str, float]]]:
        """Returns each task's scorer and the metrics of its first dev split."""
        names = [
            self.split_name(data.task, next(iter(data.dev)))
            for data in self.tasks
        ]
        scorers = [data.task.get_scorer() for data in self.tasks]
        return [*zip(scorers, map(metrics.__getitem__, names), strict=True)]

    def evaluate(self, model: FinetuningModel) -> dict[str, Any]:
        """Evaluates a model on all dev splits.

        Returns:
          "metrics", split -> metric -> value, of several tasks with the mean
          that chooses; and "collapsed", whether every row of the first dev
          split is answered alike, though it has several labels. Of several
          tasks that must be so of each: one may have too few rows to be
          learnt, but an encoder that has failed tells no row from another.
        """
        metrics, collapsed = {}, {}
        batch_size = self.config.runtime.eval_batch_size
        for name, task, split in self.dev_splits():
            scorer = task.get_scorer()
            outputs = model.outputs_of(task.name, split.features, batch_size)
            metrics[name] = scorer.score(outputs, split.examples)
            failed = scorer.has_failed(outputs, split.examples)
            collapsed.setdefault(task.name, failed)
        return {
            "collapsed": all(collapsed.values()),
            "metrics": self.with_mean(metrics),
        }

    def with_mean(
        self, metrics: dict[str, dict[str, float]]
    ) -> dict[str, dict[str, float]]:
        """Adds to the metrics of several tasks the mean that chooses."""
        if len(self.tasks) == 1:
            return metrics
        return {**metrics, ALL_TASKS: {MEAN: self.score(metrics)}}

    def split_name(self, task: Task, split: str) -> str:
        """Names a split for metrics; of several tasks, with its task."""
        return f"{task.name}_{split}" if len(self.tasks) > 1 else split

    @property
    def _seen(self) -> list[float]:
        """Rows of each task times its epochs."""
        return [
            data.train.num_rows * data.task.num_train_epochs
            for data in self.tasks
            if data.train is not None
        ]

    @property
    def _num_epochs(self) -> float:
        """Times a row is seen, in the mean over all rows."""
        sizes = [x.train.num_rows for x in self.tasks if x.train is not None]
        return sum(self._seen) / max(1, sum(sizes))
