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
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import confusion_matrix

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune.experiment import (
    ALL_TASKS,
    Experiment,
    Metrics,
    Split,
    TaskData,
)
from electra_tf.finetune.finetuned import Description, mean_threshold
from electra_tf.finetune.scorer import Outputs
from electra_tf.finetune.task import Task
from electra_tf.finetune.trial import Trial
from electra_tf.training.training_utils import freed_graphs
from electra_tf.util import console, files
from electra_tf.util.console import aligned_table

ENSEMBLE = "ensemble"
_LOWER_IS_BETTER = ("loss", "mse")
_MAX_TABLE_LABELS = 12  # that fit the width of a page

Results = Sequence[Mapping[str, Any]]
"""The results of trials, as in `result.json`."""
Summary = dict[str, dict[str, dict[str, float]]]
"""Split -> metric -> "median", "mean", "std" and "best"."""


class Scores(NamedTuple):
    """Metrics of answers."""

    tests: Sequence[Metrics]
    ensemble: Metrics


def write_predictions(
    experiment: Experiment, trials: Sequence[Trial]
) -> Scores:
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


def write(config: FinetuningConfig, content: Mapping[str, Any]) -> None:
    """Writes the results file and a table, and prints the table."""
    directory = pathlib.Path(config.results_dir)
    directory.mkdir(parents=True, exist_ok=True)
    name = config.task.task_name
    files.write_json(directory / f"{name}_results.json", content)
    if not content["summary"]:
        return
    others = {
        who: content.get(who, {}).get("metrics")
        for who in ("majority", "ensemble")
    }
    text = tables(config.task.task_names, content["trials"], **others)
    files.atomic_write_text(directory / f"{name}_results.txt", text)
    console.say()
    console.say(text)
    console.say(f"Results: {directory}/{name}_results.{{json,txt}}")


def summarize(results: Results) -> Summary:
    """Computes statistics over trials."""
    summary: Summary = {}
    for split, name in _columns(results):
        found = [_value(result["metrics"], split, name) for result in results]
        values = np.array([value for value in found if value is not None])
        best = values.min() if name in _LOWER_IS_BETTER else values.max()
        summary.setdefault(split, {})[name] = {
            "median": float(np.median(values)),
            "mean": float(values.mean()),
            "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
            "best": float(best),
        }
    return summary


def _columns(results: Results) -> list[tuple[str, str]]:
    """Returns split and name of each metric that a trial has."""
    columns = {
        (split, name): None
        for result in results
        for split, metrics in result["metrics"].items()
        for name in metrics
    }
    return list(columns)


def _value(metrics: Metrics, split: str, name: str) -> float | None:
    return metrics.get(split, {}).get(name)


def tables(
    task_names: Sequence[str],
    results: Results,
    ensemble: Metrics | None = None,
    *,
    majority: Metrics | None = None,
) -> str:
    """Formats a table for each task, and for several one of their mean."""
    if len(task_names) == 1:
        return table(task_names[0], results, ensemble, majority=majority)
    parts = []
    for name in (*task_names, ALL_TASKS):
        mine = [
            {**r, "metrics": _task_metrics(name, r["metrics"])} for r in results
        ]
        others = [_task_metrics(name, x or {}) for x in (ensemble, majority)]
        parts.append(table(name, mine, others[0], majority=others[1]))
    return "\n".join(parts)


def _task_metrics(name: str, metrics: Metrics) -> Metrics:
    """Returns the metrics of one of several tasks, keyed by its own splits."""
    mine = (f"{name}_dev", f"{name}_test")
    return {
        split.removeprefix(f"{name}_"): values
        for split, values in metrics.items()
        if split in (name, *mine)
        or split.startswith(tuple(f"{kind}_" for kind in mine))
    }


def table(
    task_name: str,
    results: Results,
    ensemble: Metrics | None = None,
    *,
    majority: Metrics | None = None,
) -> str:
    """Formats a line for each trial and the statistics below."""
    if len(results) == 1 and not ensemble:
        return _short_table(task_name, results[0], majority or {})
    columns = _columns(results)
    rows = [[task_name, *(_title(*column) for column in columns)]]
    for result in results:
        cells = [_cell(result["metrics"], *column) for column in columns]
        rows.append([f"trial {result['trial']}", *cells])
    summary = summarize(results)
    for statistic in ("median", "mean", "std", "best"):
        values = [summary[s][n][statistic] for s, n in columns]
        rows.append([statistic, *map(_number, values)])
    for who, metrics in (("majority", majority), ("ensemble", ensemble)):
        if metrics:
            cells = [_cell(metrics, *column) for column in columns]
            rows.append([who, *cells])
    return aligned_table(rows, ["", *map(_note, results)])


def _short_table(
    task_name: str, result: Mapping[str, Any], majority: Metrics
) -> str:
    """Formats a line for each metric, and columns for splits and majority."""
    metrics = result["metrics"]
    columns = []
    for split in metrics:
        columns.append((split, _title(split, "") or "dev", metrics))
        if split in majority:
            columns.append((split, "majority", majority))
    title = f"{task_name}, trial {result['trial']}"
    rows = [[title, *(head for _, head, _ in columns)]]
    for name in dict.fromkeys(name for x in metrics.values() for name in x):
        cells = [_cell(values, split, name) for split, _, values in columns]
        rows.append([name, *cells])
    note = _note(result)
    return aligned_table(rows) + f"{note}\n" * bool(note)


def _title(split: str, name: str) -> str:
    """Returns the title of a metric, with its split unless that is dev."""
    kind = split.removeprefix("dev").strip("_")
    kind = "" if kind == ALL_TASKS else kind
    return f"{kind} {name}".strip()


def _number(value: float) -> str:
    return f"{value:.2f}"


def _cell(metrics: Metrics, split: str, name: str) -> str:
    value = _value(metrics, split, name)
    return "" if value is None else _number(value)


def _note(result: Mapping[str, Any]) -> str:
    notes = []
    if result["restarts"]:
        where = result["directory"]
        notes.append(f"restarted {result['restarts']}x, now {where}")
    if result.get("collapsed"):
        notes.append("failed: one answer for all rows")
    return ", ".join(notes)


def write_confusions(experiment: Experiment, results: Results) -> None:
    """Writes and prints the best trial's table of each classification."""
    directory = output_directory(experiment.config, "results")
    for data in experiment.tasks:
        task, trial, tables = data.task, best_trial(data, results), []
        if trial is None or not 0 < len(task.labels) <= _MAX_TABLE_LABELS:
            continue
        for split in data.dev:
            answers = read_answers(task, split.name, trial)
            if all(isinstance(x["label"], str) for x in answers):
                title = f"{task.name} {split.name}, trial {trial}: gold "
                title += "labels down, predicted labels across\n"
                tables.append(title + confusion_table(task.labels, answers))
        if tables:
            text = "\n".join(tables)
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / f"{task.name}_confusion.txt"
            files.atomic_write_text(path, text)
            console.say()
            console.say(text)


def best_trial(data: TaskData, results: Results) -> int | None:
    """Returns the number of the best trial of a task; the first wins ties."""
    if not data.dev or data.dev[0].title not in results[0]["metrics"]:
        return None
    split, metric = data.dev[0].title, data.task.get_scorer().main_metric
    best = max(results, key=lambda result: result["metrics"][split][metric])
    return best["trial"]


def confusion_table(
    labels: Sequence[str], answers: Sequence[Mapping[str, Any]]
) -> str:
    """Tabulates answers by gold and predicted label."""
    gold = [answer["label"] for answer in answers]
    predicted = [answer["prediction"] for answer in answers]
    counts = confusion_matrix(gold, predicted, labels=labels)
    hits, sums, others = np.diag(counts), counts.sum(1), counts.sum(0)
    rows = [["gold", *labels, "recall"]]
    for label, row, hit, total in zip(labels, counts, hits, sums, strict=True):
        cells = [f"{value:,}" for value in row]
        rows.append([label, *cells, _percentage(hit, total)])
    rows.append(["precision", *map(_percentage, hits, others), ""])
    return aligned_table(rows)


def _percentage(part: int, total: int) -> str:
    return f"{100 * part / total:.1f} %" if total else "-"
