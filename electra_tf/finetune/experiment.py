"""The experiment that all trials of a run share: rows, order, evaluation."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint.weights import Weights
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Example, Features
from electra_tf.finetune.scorer import Outputs
from electra_tf.finetune.task import Task
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

_MIN_BUCKET_SHARE = 0.05
"""Least share of the updates that gets a row length of its own: tracing an
update for one more length takes as long as dozens of updates."""

ALL_TASKS = "all"
"""Title of the mean over tasks, among those of their splits."""
MEAN = "mean"
"""Metric of `ALL_TASKS`: the mean of the tasks' main metrics."""

Metrics = Mapping[str, Mapping[str, float]]
"""Title of a split -> metric -> value."""


class Split(NamedTuple):
    """A split to evaluate or to predict."""

    task: Task
    name: str
    title: str
    examples: Sequence[Example]
    features: Features

    @property
    def is_test(self) -> bool:
        """Whether it is a test split."""
        return self.name in self.task.test_splits

    @property
    def is_labelled(self) -> bool:
        """Whether all examples have labels."""
        return all(example.is_labelled for example in self.examples)

    def score(self, outputs: Outputs) -> dict[str, float]:
        """Returns the metrics of a model's outputs."""
        return self.task.get_scorer().score(outputs, self.examples)


class TaskData(NamedTuple):
    """A task and its rows."""

    task: Task
    train: Features | None
    dev: Sequence[Split]
    test: Sequence[Split] = ()
    majority: Metrics = MappingProxyType({})


def read_task(task: Task, digests: dict[str, str]) -> TaskData:
    """Reads the splits of a task that a run needs."""
    run = task.config.run
    train, examples = None, []
    if run.do_train:
        examples = training_examples(task)
        digests[f"{task.name} train"] = digest(examples)
        rows = list(task.featurize(examples, is_training=True))
        if not rows:
            raise UserError(
                f"The task {task.name} must have rows to learn from. Received: "
                "none, as no row holds its answer. Leave "
                "--drop_unanswered_windows out, or raise --max_seq_length."
            )
        train = Features(rows, task.get_feature_specs())
    first, *others = task.dev_splits
    names = (first, *(x for x in others if task.source(x).exists))
    names = names if run.do_eval else ()
    dev = [_read_split(task, name) for name in names]
    for split in dev:
        digests[f"{task.name} {split.name}"] = digest(split.examples)
    predicts = run.write_test_outputs or task.config.files.test_file
    names = task.test_splits if predicts else ()
    test = [_read_split(task, x) for x in names if task.source(x).exists]
    majority = {}
    if examples:
        scorer = task.get_scorer()
        for split in (*dev, *(x for x in test if x.is_labelled)):
            if found := scorer.majority(examples, split.examples):
                majority[split.title] = found
    return TaskData(task, train, dev, test, majority)


def digest(examples: Iterable[Example]) -> str:
    """Returns the digest of the examples of a split, in their order."""
    found = hashlib.sha256()
    for example in examples:
        found.update(f"{example!r}\n".encode())
    return found.hexdigest()


def training_examples(task: Task) -> list[Example]:
    """Reads the training examples, at most `max_train_examples` of them."""
    examples = list(task.get_examples("train"))
    config = task.config
    count = config.task.max_train_examples
    if count:
        order = seeds.permutation(len(examples), config.training.seed)
        examples = [examples[i] for i in sorted(order[:count])]
    return examples


def _title(task: Task, split: str) -> str:
    is_only_task = len(task.config.task.task_names) == 1
    return split if is_only_task else f"{task.name}_{split}"


def _first_title(task: Task) -> str:
    """Returns the title of the split that selects checkpoints."""
    return _title(task, task.dev_splits[0])


def _read_split(task: Task, name: str) -> Split:
    examples = task.get_examples(name)
    rows = task.featurize(examples, is_training=False)
    return Split(
        task=task,
        name=name,
        title=_title(task, name),
        examples=examples,
        features=Features(rows, task.get_feature_specs()),
    )


# Multiples of the golden ratio, modulo 1, spread the updates of each task most
# evenly over the training.
_UNIT = 2**32
_GOLDEN = 2_654_435_769


class Experiment(NamedTuple):
    """Configuration, tasks and encoder that all trials share."""

    config: FinetuningConfig
    tasks: tuple[TaskData, ...]
    weights: Weights
    strategy: tf.distribute.Strategy
    digests: Mapping[str, str]

    @property
    def num_train_steps(self) -> int:
        """Updates of a trial.

        Differs: the original also counts the rows that pad the last batch.
        """
        batch_size = self.config.training.train_batch_size
        return max(1, int(sum(self._num_rows_seen) / batch_size))

    @property
    def evaluation_steps(self) -> list[int]:
        """The updates after which the dev splits are evaluated."""
        count = self.config.training.num_evaluations
        num_rows = sum(data.train.num_rows for data in self.tasks)
        num_epochs = sum(self._num_rows_seen) / num_rows  # a mean over rows
        count = count or max(1, round(num_epochs))
        last = self.num_train_steps
        return sorted(
            {max(1, round(last * i / count)) for i in range(1, count + 1)}
        )

    def task_schedule(self, seed: int) -> np.ndarray:
        """Returns the task of each update's batch.

        Differs: the original mixes the rows of all tasks in a batch, and pads
        all of them to one length.
        """
        ends = (np.cumsum(self.shares(), -1) * _UNIT).astype(np.int64)
        offset = int(np.random.SeedSequence(seed).generate_state(1)[0])
        updates = np.arange(self.num_train_steps)
        numbers = (offset + updates * _GOLDEN) % _UNIT
        is_past = numbers[:, np.newaxis] >= ends[..., :-1]
        return is_past.sum(-1, dtype=np.int32)

    def shares(self) -> np.ndarray:
        """Returns the share of each task in each update, [updates, tasks]."""
        config = self.config.sampling
        first, last = config.task_sampling_alpha, config.task_sampling_alpha_end
        last = first if last is None else last
        alphas = np.linspace(first, last, self.num_train_steps)
        weights = np.array(self._num_rows_seen) ** alphas[:, np.newaxis]
        return weights / weights.sum(-1, keepdims=True)

    def lengths(self, seed: int) -> np.ndarray:
        """Returns the row length of each update in tokens, with padding."""
        schedule = self.task_schedule(seed)
        training = self.config.training
        lengths = np.zeros(schedule.size, np.int64)
        for number, data in enumerate(self.tasks):
            is_of_task = schedule == number
            lengths[is_of_task] = data.train.training_lengths(
                training.train_batch_size,
                is_of_task.sum(),
                seed,
                min_batches=_MIN_BUCKET_SHARE * schedule.size,
                group_by_length=training.group_by_length,
            )
        return lengths

    def check_shares(self, seed: int) -> None:
        """Checks that each task gets an update, so that its head learns."""
        counts = np.bincount(
            self.task_schedule(seed), minlength=len(self.tasks)
        )
        if counts.all():
            return
        number = int(np.argmin(counts))
        raise UserError(
            f"{self.tasks[number].task.name} gets none of "
            f"{self.num_train_steps} updates with the seed {seed}: set a lower "
            "--task_sampling_alpha."
        )

    @property
    def majority(self) -> Metrics:
        """The metrics of the majority baseline, of all tasks."""
        return {k: v for data in self.tasks for k, v in data.majority.items()}

    @property
    def dev_splits(self) -> list[Split]:
        """The splits to evaluate, of all tasks."""
        return [split for data in self.tasks for split in data.dev]

    def score(self, metrics: Metrics) -> float:
        """Returns the value that selects the checkpoint."""
        values = [
            metrics[_first_title(task)][task.get_scorer().main_metric]
            for task in (data.task for data in self.tasks)
        ]
        return float(np.mean(values))

    def rank(self, metrics: Metrics) -> tuple[float, ...]:
        """Returns the sort key of a checkpoint; the greatest is the best."""
        ties, losses = [], []
        for task in (data.task for data in self.tasks):
            found = metrics[_first_title(task)]
            names = task.get_scorer().tie_metrics
            ties += [found[name] for name in names if name in found]
            losses.append(found["loss"])
        tie = float(np.mean(ties or [0.0]))
        return self.score(metrics), tie, -float(np.mean(losses))

    def evaluate(self, model: FinetuningModel) -> dict[str, Any]:
        """Evaluates a model on all dev splits."""
        metrics, degenerate = {}, {}
        batch_size = self.config.runtime.eval_batch_size
        for split in self.dev_splits:
            task, scorer = split.task, split.task.get_scorer()
            outputs = model.outputs_of(
                task.name,
                split.features,
                batch_size,
                without=scorer.ensemble_outputs,
            )
            metrics[split.title] = split.score(outputs)
            found = scorer.is_degenerate(outputs, split.examples)
            degenerate.setdefault(task.name, found)
        return {
            "collapsed": all(degenerate.values()),
            "metrics": self.with_mean(metrics),
        }

    def with_mean(self, metrics: Metrics) -> Metrics:
        """Adds the mean of several tasks, by which checkpoints are selected."""
        if len(self.tasks) == 1:
            return metrics
        return {**metrics, ALL_TASKS: {MEAN: self.score(metrics)}}

    @property
    def _num_rows_seen(self) -> list[float]:
        """Rows of each task times its epochs."""
        return [
            data.train.num_rows * data.task.num_train_epochs
            for data in self.tasks
            if data.train is not None
        ]
