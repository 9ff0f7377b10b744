"""The report of a run: its trials' answers, their statistics and tables.

docs/finetuning.md lists the files. A run on several tasks has its own directory
of predictions, such as dev_predictions/sst+pos.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from electra_tf.finetune import finetuned
from electra_tf.finetune.experiment import MEAN, Experiment, Split
from electra_tf.finetune.scorer import Outputs
from electra_tf.finetune.trial import Trial
from electra_tf.training.training_utils import freed_graphs
from electra_tf.util import console, files
from electra_tf.util.console import aligned_table

_LOWER_IS_BETTER = ("loss", "mse")

Results = Sequence[Mapping[str, Any]]
"""The results of trials, as in `result.json`."""


def write(experiment: Experiment, trials: Sequence[Trial]) -> dict[str, Any]:
    """Writes predictions, results and tables; returns the results."""
    config = experiment.config
    for trial in trials:
        _predict(trial)
    results = [trial.result for trial in trials]
    tasks = [data.task for data in experiment.tasks]
    bad_rows = [task.bad_rows.counts for task in tasks]
    content = {
        "task": config.task.task_name,
        "main_metric": MEAN if len(tasks) > 1 else tasks[0].main_metric,
        "main_metrics": {task.name: task.main_metric for task in tasks},
        "encoder": experiment.weights.origin,
        "num_trials": len(results),
        "num_restarts": sum(result["restarts"] for result in results),
        "num_failed": sum(bool(x.get("collapsed")) for x in results),
        "num_bad_rows": {k: v for part in bad_rows for k, v in part.items()},
        "summary": summarize(results),
        "trials": results,
    }
    name = f"{config.task.task_name}_results"
    path = pathlib.Path(config.run.model_dir, "results", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(f"{path}.json", content)
    if content["summary"]:
        text = table(config.task.task_name, results)
        files.atomic_write_text(f"{path}.txt", text)
        console.say(f"\n{text}\nResults: {path}.{{json,txt}}")
    return content


@freed_graphs()
def _predict(trial: Trial) -> None:
    """Writes a trial's answers, and adds its test metrics to its result."""
    model, metrics = trial.model(), dict(trial.result["metrics"])
    described = finetuned.read_description(trial.model_dir)["tasks"]
    for task, _, dev, test in trial.experiment.tasks:
        task.threshold = described[task.name].get("threshold", task.threshold)
        for split in dev:
            _write_answers(split, split.outputs(model), trial.number)
        is_written = trial.number <= trial.config.run.n_writes_test
        for split in test:
            is_scored = all(example.is_labelled for example in split.examples)
            if not (is_written or is_scored):
                continue
            outputs = split.outputs(model)
            if is_written:
                _write_answers(split, outputs, trial.number)
            if is_scored:
                metrics[split.title] = task.score(outputs, split.examples)
    trial.result["metrics"] = metrics


def _write_answers(split: Split, outputs: Outputs, trial: int) -> None:
    """Writes the answers to a split, also as other programs read them."""
    task = split.task
    run, joined = task.config.run, task.config.task.task_name
    own = joined if "+" in joined else ""  # directory of several tasks
    answers = task.answers(outputs, split.examples)
    lines = [json.dumps(answer, ensure_ascii=False) for answer in answers]
    kind = "test_predictions" if split.is_test else "dev_predictions"
    name = f"{task.name}_{split.name}_{trial}_predictions.jsonl"
    path = pathlib.Path(run.model_dir, kind, own, name)
    texts = {path: "".join(f"{line}\n" for line in lines)}
    directory = pathlib.Path(run.model_dir, "submissions", own)
    if not split.is_test:
        directory = pathlib.Path(run.model_dir, "results", own)
        directory /= f"{task.name}_{task.FILES_SUFFIX}"
    for name, text in task.output_files(split.name, answers).items():
        texts[directory / f"trial_{trial}" / name] = text
    for path, text in texts.items():
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


def table(title: str, results: Results) -> str:
    """Formats a line for each metric, a column for each trial and statistic."""
    summary, statistics = summarize(results), []
    if len(results) > 1:
        statistics = ["median", "mean", "std", "best"]
    trials = [f"trial {result['trial']}" for result in results]
    rows = [[title, *trials, *statistics]]
    for (split, name), values in _values(results).items():
        values += [summary[split][name][x] for x in statistics]
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
