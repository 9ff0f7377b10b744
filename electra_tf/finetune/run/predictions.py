"""Answers of trials, and of their ensemble, on dev and test splits.

    <model_dir>/dev_predictions/<task>_<split>_<who>_predictions.jsonl
    <model_dir>/test_predictions/   likewise
    <model_dir>/submissions/        a directory for each trial, of the files
                                    that other programs take

<who> is the number of a trial, or "ensemble". A run on several tasks has its
own directory, such as sst+pos, in each of these.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.run.experiment import Experiment, Metrics, Split
from electra_tf.finetune.run.trial import Trial
from electra_tf.finetune.scorer import Outputs
from electra_tf.finetune.task import Task
from electra_tf.finetune.task_description import Description, mean_threshold
from electra_tf.training.training_utils import freed_graphs
from electra_tf.util import files

ENSEMBLE = "ensemble"


class Scores(NamedTuple):
    """Metrics of answers."""

    tests: Sequence[Metrics]
    ensemble: Metrics


def write(experiment: Experiment, trials: Sequence[Trial]) -> Scores:
    """Writes the answers of each trial, and of their ensemble."""
    splits = [
        split for data in experiment.tasks for split in (*data.dev, *data.test)
    ]
    tests, outputs = [], []
    for trial in trials:
        scores, kept = _predict(experiment, trial, splits)
        tests.append(scores)
        outputs.append(kept)
    if not experiment.config.run.ensemble:
        return Scores(tests, {})
    metrics = {}
    descriptions = [trial.description for trial in trials]
    _set_thresholds(experiment, descriptions)
    for split, *parts in zip(splits, *outputs, strict=True):
        joined = split.task.get_scorer().combine(parts)
        _write_answers(split, joined, ENSEMBLE)
        if split.is_labelled:
            metrics[split.title] = split.score(joined)
            del metrics[split.title]["loss"]
    has_dev = any(not split.is_test for split in splits)
    return Scores(tests, experiment.with_mean(metrics) if has_dev else metrics)


def read_answers(task: Task, split: str, trial: int) -> list[dict[str, Any]]:
    """Reads the answers of a trial."""
    path = output_directory(task.config, "dev_predictions") / _file_name(
        task, split, str(trial)
    )
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def _set_thresholds(
    experiment: Experiment, descriptions: Sequence[Description]
) -> None:
    for data in experiment.tasks:
        found = mean_threshold(descriptions, data.task.name)
        data.task.set_threshold(found)


@freed_graphs()
def _predict(
    experiment: Experiment, trial: Trial, splits: Sequence[Split]
) -> tuple[Metrics, list[Outputs]]:
    """Writes the answers of a trial."""
    run = experiment.config.run
    batch_size = experiment.config.runtime.eval_batch_size
    model, scores, kept = None, {}, []
    for split in splits:
        is_written = not split.is_test or trial.number <= run.n_writes_test
        is_scored = split.is_test and split.is_labelled
        if not (is_written or is_scored or run.ensemble):
            continue
        if model is None:
            model = trial.model()
            _set_thresholds(experiment, [trial.description])
        scorer = split.task.get_scorer()
        outputs = model.outputs_of(
            split.task.name,
            split.features,
            batch_size,
            without=() if run.ensemble else scorer.ensemble_outputs,
        )
        if is_written:
            _write_answers(split, outputs, str(trial.number))
        if is_scored:
            scores[split.title] = split.score(outputs)
        if run.ensemble:
            kept.append(outputs)
    return scores, kept


def _write_answers(split: Split, outputs: Outputs, who: str) -> None:
    """Writes the answers to a split, also as other programs read them."""
    task, name, config = split.task, split.name, split.task.config
    answers = task.get_scorer().answers(outputs, split.examples)
    kind = "test" if split.is_test else "dev"
    path = output_directory(config, f"{kind}_predictions") / _file_name(
        task, name, who
    )
    lines = [json.dumps(answer, ensure_ascii=False) for answer in answers]
    _write_text(path, "".join(f"{line}\n" for line in lines))
    directory = output_directory(config, "submissions")
    if not split.is_test:
        directory = output_directory(config, "results")
        directory /= f"{task.name}_{task.FILES_SUFFIX}"
    directory /= who if who == ENSEMBLE else f"trial_{who}"
    for file_name, text in task.output_files(name, answers).items():
        _write_text(directory / file_name, text)


def output_directory(config: FinetuningConfig, kind: str) -> pathlib.Path:
    """Returns the directory of a run's files of a kind, as "results"."""
    name = config.task.task_name
    return pathlib.Path(config.run.model_dir, kind, *[name] * ("+" in name))


def _file_name(task: Task, split: str, who: str) -> str:
    return f"{task.name}_{split}_{who}_predictions.jsonl"


def _write_text(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.atomic_write_text(path, text)
