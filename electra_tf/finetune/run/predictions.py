"""Answers of trials, and of their ensemble, on dev and test splits.

    <model_dir>/dev_predictions/<task>_<split>_<who>_predictions.jsonl
    <model_dir>/test_predictions/   likewise
    <model_dir>/submissions/        a directory for each trial, of the files
                                    that other programs take

<who> is the number of a trial, or "ensemble". A run on several tasks has a
directory in each of these, as sst+pos.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.finetune.features import Features
from electra_tf.finetune.run.experiment import Experiment, Split
from electra_tf.finetune.run.trial import Trial
from electra_tf.finetune.scorer import Outputs
from electra_tf.finetune.task import Task
from electra_tf.util import files, trial_directories

ENSEMBLE = "ensemble"


Metrics = dict[str, dict[str, float]]
"""Split -> metric -> value."""


class Scores(NamedTuple):
    """Metrics of answers.

    Attributes:
      tests: of each trial, on the test splits whose right answers are known.
      ensemble: of all trials together, on these and the dev splits; without
        a loss, which is a model's. Empty if no ensemble is asked for.
    """

    tests: Sequence[Metrics]
    ensemble: Metrics


class _Target(NamedTuple):
    """A split whose answers are written or scored.

    Attributes:
      task: of it.
      name: of the split.
      title: that its metrics have.
      split: its examples and rows.
      is_test: whether it is a test split.
    """

    task: Task
    name: str
    title: str
    split: Split
    is_test: bool

    @property
    def is_labelled(self) -> bool:
        """Whether all right answers are known."""
        return all(example.is_labelled for example in self.split.examples)

    def score(self, outputs: Outputs) -> dict[str, float]:
        """Returns the metrics of a model's outputs."""
        return self.task.get_scorer().score(outputs, self.split.examples)


def read(task: Task, split: str) -> Split:
    """Reads a split to evaluate or predict."""
    examples = task.get_examples(split)
    rows = task.featurize(examples, is_training=False)
    return Split(examples, Features(rows, task.get_feature_specs()))


def test_splits(task: Task) -> list[str]:
    """Returns the test splits of a task that a run is to answer."""
    config = task.config
    if not (config.run.write_test_outputs or config.files.test_file):
        return []
    return task.existing_splits(task.test_splits)


def write(experiment: Experiment, trials: Sequence[Trial]) -> Scores:
    """Writes the answers of each trial, and of their ensemble."""
    splits = _splits(experiment)
    tests, outputs = [], []
    for trial in trials:
        scores, kept = _predict(experiment, trial, splits)
        tests.append(scores)
        outputs.append(kept)
    if not experiment.config.run.ensemble:
        return Scores(tests, {})
    metrics = {}
    for target, *parts in zip(splits, *outputs, strict=True):
        joined = target.task.get_scorer().combine(parts)
        _write_answers(target, joined, ENSEMBLE)
        if target.is_labelled:
            found = target.score(joined)
            del found["loss"]
            metrics[target.title] = found
    has_dev = any(not target.is_test for target in splits)
    return Scores(tests, experiment.with_mean(metrics) if has_dev else metrics)


def read_answers(task: Task, split: str, trial: int) -> list[dict[str, Any]]:
    """Reads the answers of a trial."""
    path = _place(task, "dev_predictions") / _file_name(task, split, str(trial))
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def _predict(
    experiment: Experiment, trial: Trial, splits: Sequence[_Target]
) -> tuple[Metrics, list[Outputs]]:
    """Writes the answers of a trial.

    Returns:
      Its metrics on labelled test splits, and its outputs on each split, where
      an ensemble needs them.
    """
    run = experiment.config.run
    batch_size = experiment.config.runtime.eval_batch_size
    model = trial.model()
    scores, kept = {}, []
    for target in splits:
        is_written = not target.is_test or trial.number <= run.n_writes_test
        is_scored = target.is_test and target.is_labelled
        if not (is_written or is_scored or run.ensemble):
            continue
        features = target.split.features
        outputs = model.outputs_of(target.task.name, features, batch_size)
        if is_written:
            _write_answers(target, outputs, str(trial.number))
        if is_scored:
            scores[target.title] = target.score(outputs)
        if run.ensemble:
            kept.append(outputs)
    return scores, kept


def _splits(experiment: Experiment) -> list[_Target]:
    """Returns all splits to answer, the dev splits in their order."""
    splits = []
    for task, _, dev, _ in experiment.tasks:
        for name, split in dev.items():
            title = experiment.split_name(task, name)
            splits.append(_Target(task, name, title, split, is_test=False))
        for name in test_splits(task):
            title, split = experiment.split_name(task, name), read(task, name)
            splits.append(_Target(task, name, title, split, is_test=True))
    return splits


def _write_answers(target: _Target, outputs: Outputs, who: str) -> None:
    """Writes the answers to a split, also as other programs read them."""
    task, name, _, split, is_test = target
    answers = task.get_scorer().answers(outputs, split.examples)
    kind = "test" if is_test else "dev"
    path = _place(task, f"{kind}_predictions") / _file_name(task, name, who)
    _write_text(path, _lines(answers))
    results = _place(task, "results") / f"{task.name}_{task.FILES}"
    directory = _place(task, "submissions") if is_test else results
    directory /= who if who == ENSEMBLE else f"trial_{who}"
    for file_name, text in task.files(name, answers).items():
        _write_text(directory / file_name, text)


def _place(task: Task, kind: str) -> pathlib.Path:
    """Returns the directory of answers of a kind."""
    directory = pathlib.Path(task.config.run.model_dir, kind)
    return trial_directories.of_tasks(directory, task.config.task.task_name)


def _file_name(task: Task, split: str, who: str) -> str:
    return f"{task.name}_{split}_{who}_predictions.jsonl"


def _lines(answers: Sequence[Mapping[str, Any]]) -> str:
    lines = [json.dumps(answer, ensure_ascii=False) for answer in answers]
    return "".join(line + "\n" for line in lines)


def _write_text(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.atomic_write_text(path, text)
