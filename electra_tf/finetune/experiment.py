"""What the trials of a run share: encoder, tasks, rows, order, evaluation."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint import loading
from electra_tf.checkpoint.architecture import STEP
from electra_tf.checkpoint.weights import (
    ENCODER,
    Weights,
    select,
    without_slots,
)
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.finetuning_model import FinetuningModel
from electra_tf.finetune.preprocessing import Example, Features
from electra_tf.finetune.scorer import Outputs
from electra_tf.finetune.task import Task
from electra_tf.util import seeds
from electra_tf.util.errors import UserError

# Least share of the updates that gets a row length of its own: tracing an
# update for one more length takes as long as dozens of updates.
_MIN_BUCKET_SHARE = 0.05
# Multiples of the golden ratio, modulo 1, spread the updates of each task most
# evenly over the training.
_UNIT = 2**32
_GOLDEN = 2_654_435_769

# Split and metric of the mean of several tasks' main metrics.
ALL_TASKS = "all"
MEAN = "mean"

Metrics = Mapping[str, Mapping[str, float]]
"""Title of a split -> metric -> value."""


def read_encoder(config: FinetuningConfig) -> Weights:
    """Reads the encoder of the model directory, or of `init_checkpoint`."""
    path = config.training.init_checkpoint or config.run.model_dir
    weights = loading.read(path, vocab_file=config.task.vocab_file)
    flag = config.task.do_lower_case
    is_lower = weights.do_lower_case is not False
    return dataclasses.replace(
        without_slots(select(weights, ENCODER)),
        do_lower_case=is_lower if flag == "auto" else flag == "true",
        strip_accents=weights.strip_accents is not False,
    )


def digest_of_encoder(weights: Weights) -> str:
    """Returns the digest of an encoder and its tokenizer."""
    digest = hashlib.sha256()
    for name, array in sorted(weights.arrays.items()):
        if name != STEP:
            digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
    switches = (weights.do_lower_case, weights.strip_accents)
    digest.update(f"{weights.vocabulary.sha256} {switches}".encode())
    return digest.hexdigest()


def resolve_defaults(
    config: FinetuningConfig, weights: Weights
) -> tuple[FinetuningConfig, Weights]:
    """Fills in what the encoder determines: rates and dropout."""
    encoder = weights.architecture.encoder
    rates = config.optimizer.rates(encoder.hidden_size)
    dropouts = config.training.dropouts(encoder)
    resolved = dataclasses.replace(
        config,
        optimizer=dataclasses.replace(config.optimizer, **rates._asdict()),
        training=dataclasses.replace(config.training, **dropouts),
    )
    architecture = weights.architecture.with_fields(**dropouts)
    return resolved, dataclasses.replace(weights, architecture=architecture)


class Split(NamedTuple):
    """A split to evaluate or to predict."""

    task: Task
    name: str
    title: str
    examples: Sequence[Example]
    features: Features

    @property
    def is_test(self) -> bool:
        """True for a test split."""
        return self.name in self.task.test_splits

    def outputs(self, model: FinetuningModel) -> Outputs:
        """Computes what a model's head returns for all rows."""
        size = self.task.config.runtime.eval_batch_size
        return model.outputs_of(self.task.name, self.features, size)


class TaskData(NamedTuple):
    """A task and its rows; the first dev split selects checkpoints."""

    task: Task
    train: Features | None
    dev: Sequence[Split]
    test: Sequence[Split] = ()

    @property
    def num_rows_seen(self) -> float:
        """Training rows times epochs; 0 without training."""
        num_rows = self.train.num_rows if self.train else 0
        return num_rows * self.task.num_train_epochs


def read_task(task: Task, digests: dict[str, str]) -> TaskData:
    """Reads the splits of a task that a run needs, and adds their digests."""
    config, run = task.config, task.config.run
    train = None
    if run.do_train:
        examples = task.get_examples("train")
        if count := config.task.max_train_examples:
            order = seeds.permutation(len(examples), config.training.seed)
            examples = [examples[i] for i in sorted(order[:count])]
        digests[f"{task.name} train"] = _digest(examples)
        train = Features(task.featurize(examples, is_training=True))

    def read(name: str) -> Split:
        is_only_task = len(config.task.task_names) == 1
        examples = task.get_examples(name)
        return Split(
            task,
            name,
            title=name if is_only_task else f"{task.name}_{name}",
            examples=examples,
            features=Features(task.featurize(examples, is_training=False)),
        )

    dev, test = [], []
    if run.do_eval:
        first, *others = task.dev_splits
        names = [first, *(x for x in others if task.source(x).exists)]
        dev = [read(name) for name in names]
    if run.test_file:
        test = [read("test")]
    elif run.write_test_outputs:
        names = [x for x in task.test_splits if task.source(x).exists]
        test = [read(name) for name in names]
    for split in dev:
        digests[f"{task.name} {split.name}"] = _digest(split.examples)
    # What the head's outputs mean, which training rows may determine.
    digests[f"{task.name} outputs"] = _digest([json.dumps(task.describe())])
    return TaskData(task, train, dev, test)


def _digest(values: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for value in values:
        digest.update(f"{value!r}\n".encode())
    return digest.hexdigest()


class Updates(NamedTuple):
    """The batches of a trial; S updates of B rows."""

    tasks: np.ndarray  # int64 [S], numbers of tasks
    lengths: np.ndarray  # int64 [S], tokens in a row with padding
    rows: np.ndarray  # int32 [S, B]


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
        num_rows = sum(data.num_rows_seen for data in self.tasks)
        return max(1, int(num_rows / self.config.training.train_batch_size))

    @property
    def evaluation_steps(self) -> list[int]:
        """The updates after which the dev splits are evaluated."""
        num_rows = sum(data.train.num_rows for data in self.tasks)
        num_rows_seen = sum(data.num_rows_seen for data in self.tasks)
        count = max(1, round(num_rows_seen / num_rows))  # mean epochs of rows
        last = self.num_train_steps
        return sorted(
            {max(1, round(last * i / count)) for i in range(1, count + 1)}
        )

    def task_schedule(self, seed: int) -> np.ndarray:
        """Returns the number of the task of each update's batch, int64 [S].

        Differs: the original mixes the rows of all tasks in a batch, and pads
        all of them to one length.
        """
        alpha = self.config.training.task_sampling_alpha
        weights = np.array([x.num_rows_seen for x in self.tasks]) ** alpha
        ends = (np.cumsum(weights / weights.sum()) * _UNIT).astype(np.int64)
        offset = int(np.random.SeedSequence(seed).generate_state(1)[0])
        numbers = (offset + np.arange(self.num_train_steps) * _GOLDEN) % _UNIT
        return np.searchsorted(ends[:-1], numbers, side="right")

    def updates(self, seed: int) -> Updates:
        """Returns the batches of a trial."""
        batch_size = self.config.training.train_batch_size
        tasks = self.task_schedule(seed)
        lengths = np.zeros(tasks.size, np.int64)
        rows = np.zeros((tasks.size, batch_size), np.int32)
        for number, data in enumerate(self.tasks):
            is_of_task = tasks == number
            if not is_of_task.any():
                raise UserError(
                    f"{data.task.name} gets none of {tasks.size} updates with "
                    f"seed {seed}: set a lower --task_sampling_alpha."
                )
            order = data.train.order(is_of_task.sum(), batch_size, seed)
            rows[is_of_task] = order
            lengths[is_of_task] = data.train.padded_lengths(
                order, min_batches=_MIN_BUCKET_SHARE * tasks.size
            )
        return Updates(tasks, lengths, rows)

    def score(self, metrics: Metrics) -> float:
        """Returns the value that selects the checkpoint."""
        pairs = [(x.dev[0].title, x.task.main_metric) for x in self.tasks]
        return float(np.mean([metrics[split][name] for split, name in pairs]))

    def rank(self, metrics: Metrics) -> tuple[float, ...]:
        """Returns the sort key of a checkpoint; the greatest is the best."""
        losses = [metrics[data.dev[0].title]["loss"] for data in self.tasks]
        return self.score(metrics), -float(np.mean(losses))

    def evaluate(self, model: FinetuningModel) -> dict[str, Any]:
        """Evaluates a model on all dev splits."""
        metrics, is_degenerate = {}, []
        for data in self.tasks:
            for split in data.dev:
                outputs = split.outputs(model)
                metrics[split.title] = data.task.score(outputs, split.examples)
                if split is data.dev[0]:
                    is_degenerate.append(
                        data.task.is_degenerate(outputs, split.examples)
                    )
        if len(self.tasks) > 1:
            metrics[ALL_TASKS] = {MEAN: self.score(metrics)}
        return {"collapsed": all(is_degenerate), "metrics": metrics}
