"""The report of a run: its trials' answers, their statistics and tables.

    <model_dir>/results/<task>_results.json
    <model_dir>/results/<task>_results.txt
    <model_dir>/results/<task>_confusion.txt   of the best trial
    <model_dir>/dev_predictions/<task>_<split>_<who>_predictions.jsonl
    <model_dir>/test_predictions/   likewise
    <model_dir>/submissions/        a directory for each trial, of the files
                                    that other programs take

<who> is the number of a trial, or "ensemble". A run on several tasks has its
own directory, such as sst+pos, in each of the last three.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune import finetuned
from electra_tf.finetune.experiment import (
    MEAN,
    Experiment,
    Metrics,
    Split,
)
from electra_tf.finetune.scorer import Outputs
from electra_tf.finetune.trial import Trial
from electra_tf.training.training_utils import freed_graphs
from electra_tf.util import console, files
from electra_tf.util.console import aligned_table

ENSEMBLE = "ensemble"
_LOWER_IS_BETTER = ("loss", "mse")
_MAX_TABLE_LABELS = 12  # that fit the width of a page

Results = Sequence[Mapping[str, Any]]
"""The results of trials, as in `result.json`."""


def write(experiment: Experiment, trials: Sequence[Trial]) -> dict[str, Any]:
    """Writes predictions, results and tables; returns the results."""
    config = experiment.config
    splits = [x for data in experiment.tasks for x in (*data.dev, *data.test)]
    ensemble = _write_predictions(experiment, trials, splits)
    results = [trial.result for trial in trials]
    tasks = [data.task for data in experiment.tasks]
    main_metrics = {task.name: task.get_scorer().main_metric for task in tasks}
    bad_rows = [task.bad_rows.counts for task in tasks]
    majority = {x.title: x.majority for x in splits if x.majority}
    others = {"majority": majority, ENSEMBLE: ensemble}
    others = {who: metrics for who, metrics in others.items() if metrics}
    content = {
        "task": config.task.task_name,
        "main_metric": MEAN if len(tasks) > 1 else main_metrics[tasks[0].name],
        "main_metrics": main_metrics,
        "encoder": experiment.weights.origin,
        "num_trials": len(results),
        "num_restarts": sum(result["restarts"] for result in results),
        "num_failed": sum(bool(x.get("collapsed")) for x in results),
        "num_bad_rows": {k: v for part in bad_rows for k, v in part.items()},
        "summary": summarize(results),
        "trials": results,
        **{who: {"metrics": metrics} for who, metrics in others.items()},
    }
    name = f"{config.task.task_name}_results"
    path = pathlib.Path(config.run.model_dir, "results", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(f"{path}.json", content)
    if content["summary"]:
        text = table(config.task.task_name, results, others)
        files.atomic_write_text(f"{path}.txt", text)
        console.say(f"\n{text}\nResults: {path}.{{json,txt}}")
    _write_confusions(experiment, results)
    return content


def _write_predictions(
    experiment: Experiment, trials: Sequence[Trial], splits: Sequence[Split]
) -> Metrics:
    """Writes the answers of trials and ensemble, whose metrics it returns."""
    outputs = [_predict(trial, splits) for trial in trials]
    if not experiment.config.run.ensemble:
        return {}
    _set_thresholds(trials)
    metrics = {}
    for split, *parts in zip(splits, *outputs, strict=True):
        joined = split.task.get_scorer().combine(parts)
        _write_answers(split, joined, ENSEMBLE)
        if split.is_labelled:
            metrics[split.title] = split.score(joined)
            del metrics[split.title]["loss"]
    has_dev = any(not split.is_test for split in splits)
    return experiment.with_mean(metrics) if has_dev else metrics


@freed_graphs()
def _predict(trial: Trial, splits: Sequence[Split]) -> list[Outputs]:
    """Writes a trial's answers, adds its test metrics, returns its outputs."""
    run, model, kept = trial.config.run, trial.model(), []
    metrics = dict(trial.result["metrics"])
    _set_thresholds([trial])
    for split in splits:
        is_written = not split.is_test or trial.number <= run.n_writes_test
        is_scored = split.is_test and split.is_labelled
        if not (is_written or is_scored or run.ensemble):
            continue
        scorer = split.task.get_scorer()
        outputs = model.outputs_of(
            split.task.name,
            split.features,
            trial.config.runtime.eval_batch_size,
            without=() if run.ensemble else scorer.ensemble_outputs,
        )
        if is_written:
            _write_answers(split, outputs, str(trial.number))
        if is_scored:
            metrics[split.title] = split.score(outputs)
        if run.ensemble:
            kept.append(outputs)
    trial.result["metrics"] = metrics
    return kept


def _set_thresholds(trials: Sequence[Trial]) -> None:
    """Sets the thresholds of the tasks to the mean of the trials'."""
    descriptions = [finetuned.read_description(x.model_dir) for x in trials]
    for task in trials[0].tasks:
        finetuned.set_threshold(task, descriptions)


def _write_answers(split: Split, outputs: Outputs, who: str) -> None:
    """Writes the answers to a split, also as other programs read them."""
    task = split.task
    answers = task.get_scorer().answers(outputs, split.examples)
    lines = [json.dumps(answer, ensure_ascii=False) for answer in answers]
    _write_text(_answers_file(split, who), "".join(f"{x}\n" for x in lines))
    directory = output_directory(task.config, "submissions")
    if not split.is_test:
        directory = output_directory(task.config, "results")
        directory /= f"{task.name}_{task.FILES_SUFFIX}"
    directory /= who if who == ENSEMBLE else f"trial_{who}"
    for file_name, text in task.output_files(split.name, answers).items():
        _write_text(directory / file_name, text)


def _answers_file(split: Split, who: str) -> pathlib.Path:
    kind = "test_predictions" if split.is_test else "dev_predictions"
    name = f"{split.task.name}_{split.name}_{who}_predictions.jsonl"
    return output_directory(split.task.config, kind) / name


def output_directory(config: FinetuningConfig, kind: str) -> pathlib.Path:
    """Returns the directory of a run's files of a kind, as "results"."""
    name = config.task.task_name
    return pathlib.Path(config.run.model_dir, kind, *[name] * ("+" in name))


def _write_text(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.atomic_write_text(path, text)


def summarize(results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """Computes statistics over trials, by split and metric."""
    summary: dict[str, dict[str, dict[str, float]]] = {}
    for (split, name), values in _values(results).items():
        values = np.array([value for value in values if value is not None])
        best = values.min() if name in _LOWER_IS_BETTER else values.max()
        summary.setdefault(split, {})[name] = {
            "median": float(np.median(values)),
            "mean": float(values.mean()),
            "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
            "best": float(best),
        }
    return summary


def _values(results: Results) -> dict[tuple[str, str], list[float | None]]:
    """Returns split and name of each metric -> its value in each trial."""
    metrics = [result["metrics"] for result in results]
    return {
        (split, name): [x.get(split, {}).get(name) for x in metrics]
        for part in metrics
        for split, values in part.items()
        for name in values
    }


def table(title: str, results: Results, others: Mapping[str, Metrics]) -> str:
    """Formats a line for each metric, a column for each trial and statistic."""
    summary, statistics = summarize(results), []
    if len(results) > 1:
        statistics = ["median", "mean", "std", "best"]
    trials = [f"trial {result['trial']}" for result in results]
    rows = [[title, *trials, *statistics, *others]]
    for (split, name), values in _values(results).items():
        values += [summary[split][name][x] for x in statistics]
        values += [x.get(split, {}).get(name) for x in others.values()]
        cells = ["" if value is None else f"{value:.2f}" for value in values]
        rows.append([f"{split} {name}", *cells])
    notes = ""
    for result in results:
        trial, directory = f"Trial {result['trial']}", result["directory"]
        if result["restarts"]:
            notes += f"{trial}: {result['restarts']} restarts, {directory}\n"
        if result.get("collapsed"):
            notes += f"{trial} failed: one answer for all rows\n"
    return aligned_table(rows) + notes


def _write_confusions(experiment: Experiment, results: Results) -> None:
    """Writes and prints the best trial's table of each classification."""
    for task, _, dev, _ in experiment.tasks:
        has_table = len(task.labels) <= _MAX_TABLE_LABELS
        if task.KIND != "classification" or not has_table or not dev:
            continue
        title, main_metric = dev[0].title, task.get_scorer().main_metric
        scores = [x["metrics"][title][main_metric] for x in results]
        best, tables = results[int(np.argmax(scores))]["trial"], []
        for split in dev:
            path = _answers_file(split, str(best))
            lines = path.read_text("utf-8").split("\n")
            answers = [json.loads(line) for line in lines if line]
            tables.append(
                f"{task.name} {split.name}, trial {best}: gold labels down, "
                "predicted labels across\n"
                + confusion_table(task.labels, answers)
            )
        text = "\n".join(tables)
        directory = output_directory(experiment.config, "results")
        _write_text(directory / f"{task.name}_confusion.txt", text)
        console.say(f"\n{text}")


def confusion_table(
    labels: Sequence[str], answers: Sequence[Mapping[str, Any]]
) -> str:
    """Tabulates answers by gold and predicted label."""
    gold = [answer["label"] for answer in answers]
    predicted = [answer["prediction"] for answer in answers]
    counts = confusion_matrix(gold, predicted, labels=labels)
    rows = [["gold", *labels]]
    for label, row in zip(labels, counts, strict=True):
        rows.append([label, *(f"{count:,}" for count in row)])
    return aligned_table(rows)
