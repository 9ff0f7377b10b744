"""A fine-tuning run: read encoder and data, train the trials, report.

It reads <data_dir>/finetuning_data/<task> and the pre-trained encoder in
<data_dir>/models/<model_name>, beside which it writes; docs/finetuning.md lists
the files.
"""

import dataclasses
import json
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from electra_tf.checkpoint import loading
from electra_tf.config.optimizer import default_epochs
from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune import experiment as experiments
from electra_tf.finetune import finetuned, task_builder
from electra_tf.finetune.experiment import MEAN, Experiment, Split
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.scorer import Outputs
from electra_tf.finetune.trial import Trial
from electra_tf.training import training_utils
from electra_tf.training.training_utils import freed_graphs
from electra_tf.util import console, distribution, files
from electra_tf.util.console import aligned_table
from electra_tf.util.errors import UserError
from electra_tf.util.flags import flatten

_MAX_SHARE_UNKNOWN = 0.05
_LOWER_IS_BETTER = ("loss", "mse")
_SHARED = training_utils.SHARED_FIELDS | {"model_name", "num_trials"}

Results = Sequence[Mapping[str, Any]]  # of trials, as in `result.json`


@distribution.naming_lost_workers()
def run(config: FinetuningConfig) -> dict[str, Any]:
    """Trains, evaluates and predicts with every trial; the chief reports."""
    if config.runtime.tensorboard:
        import tensorboard  # noqa: F401 (before hours of training)
    experiment = prepare(config)
    numbers = range(1, config.run.num_trials + 1)
    trials = [run_trial(experiment, number) for number in numbers]
    is_chief = distribution.is_chief(experiment.strategy)
    content = report(experiment, trials) if is_chief else {}
    distribution.barrier(experiment.strategy)  # the chief is the last to end
    return content


def prepare(config: FinetuningConfig) -> Experiment:
    """Reads encoder and data, the same ones on all workers."""
    if config.runtime.deterministic:
        tf.config.experimental.enable_op_determinism()
    strategy = training_utils.join_workers(
        config.runtime, training_utils.shared_settings(config, _SHARED)
    )
    distribution.check_division(
        {config.training.train_batch_size},
        strategy.num_replicas_in_sync,
        config.runtime.gradient_accumulation_steps,
    )

    weights = experiments.read_encoder(config)
    tokenizer = TextTokenizer.of(weights)
    loading.warn_of_assumed_heads(weights)
    resolved, weights = experiments.resolve_defaults(config, weights)
    encoder = weights.architecture.encoder
    digests = {"encoder": experiments.digest_of_encoder(weights)}
    data = []
    for name in config.task.task_names:
        task = task_builder.get_task(
            resolved, name, tokenizer, longest=encoder.max_position_embeddings
        )
        data.append(experiments.read_task(task, digests))
        train = data[-1].train
        if train and config.training.num_train_epochs is None:
            task.num_train_epochs = default_epochs(
                task.num_train_epochs,
                encoder.hidden_size,
                train.num_rows / config.training.train_batch_size,
            )
    distribution.Workers(strategy).check_same_values(digests)
    experiment = Experiment(resolved, tuple(data), weights, strategy, digests)
    if distribution.is_chief(strategy):
        _log(config, experiment)
    return experiment


def _log(config: FinetuningConfig, experiment: Experiment) -> None:
    """Logs the encoder, the settings that it determines, and the rows."""
    console.say(f"Encoder: {experiment.weights.origin}.")
    old, new = (
        flatten(dataclasses.asdict(x)) for x in (config, experiment.config)
    )
    flags = [f"--{k}={v}" for k, v in new.items() if old[k] != v]
    if flags:
        console.say(f"Defaults set by the encoder: {' '.join(flags)}")
    for task, train, dev, test in experiment.tasks:
        counts = [f"{len(x.examples):,} in {x.name}" for x in (*dev, *test)]
        if train is not None:
            share = train.share_unknown(experiment.weights.vocabulary)
            text = f"{train.num_rows:,} rows to train on ({share:.1%} [UNK])"
            counts.insert(0, text)
            if share > _MAX_SHARE_UNKNOWN:
                console.warn(
                    f"{share:.0%} of the tokens of {task.name} are [UNK]: "
                    "words of other letters, or of more than 200."
                )
        console.say(f"{task.name}: {', '.join(counts)}.")
        for note in task.bad_rows.notes:
            console.warn(note)
        if config.run.write_test_outputs and not test:
            source = task.source(task.test_splits[0])
            console.warn(f"{task.name} has no test rows: {source}.")


def run_trial(experiment: Experiment, number: int) -> Trial:
    """Runs a trial, and restarts it while it is degenerate."""
    config = experiment.config
    trials: list[Trial] = []
    for restart in range(config.training.max_restarts + 1):
        trial = Trial(experiment, number, restart)
        if not (config.run.do_train or trial.is_done):
            break
        if trials:
            console.warn(
                f"Trial {number} failed: it gives the same answer to every dev "
                "row. It is restarted with another seed."
            )
        trials.append(trial)
        trial.run()
        if not trial.result.get("collapsed"):
            break
    if not trials:
        raise UserError(f"{trial.directory} holds no finished trial.")
    chosen = trials[-1]
    if chosen.result.get("collapsed"):
        chosen = max(trials, key=lambda x: experiment.rank(x.result["metrics"]))
    chosen.result["restarts"] = len(trials) - 1
    return chosen


def report(experiment: Experiment, trials: Sequence[Trial]) -> dict[str, Any]:
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
    lines = (f"{json.dumps(x, ensure_ascii=False)}\n" for x in answers)
    kind = "test_predictions" if split.is_test else "dev_predictions"
    name = f"{task.name}_{split.name}_{trial}_predictions.jsonl"
    path = pathlib.Path(run.model_dir, kind, own, name)
    texts = {path: "".join(lines)}
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
    values: dict[str, dict[str, list[float]]] = {}
    for result in results:
        for split, metrics in result["metrics"].items():
            for name, value in metrics.items():
                values.setdefault(split, {}).setdefault(name, []).append(value)
    return {
        split: {
            name: {
                "median": statistics.median(x),
                "mean": statistics.fmean(x),
                "std": statistics.stdev(x) if len(x) > 1 else 0.0,
                "best": min(x) if name in _LOWER_IS_BETTER else max(x),
            }
            for name, x in metrics.items()
        }
        for split, metrics in values.items()
    }


def table(title: str, results: Results) -> str:
    """Formats a line for each metric, a column for each trial and statistic."""
    columns = ["median", "mean", "std", "best"] * (len(results) > 1)
    trials = [f"trial {result['trial']}" for result in results]
    rows = [[title, *trials, *columns]]
    for split, metrics in summarize(results).items():
        for name, summary in metrics.items():
            values = [x["metrics"].get(split, {}).get(name) for x in results]
            values += [summary[x] for x in columns]
            cells = ["" if x is None else f"{x:.2f}" for x in values]
            rows.append([f"{split} {name}", *cells])
    notes = ""
    for result in results:
        trial, directory = f"Trial {result['trial']}", result["directory"]
        if result["restarts"]:
            notes += f"{trial}: {result['restarts']} restarts, {directory}\n"
        if result.get("collapsed"):
            notes += f"{trial} failed: one answer for all rows\n"
    return aligned_table(rows) + notes
