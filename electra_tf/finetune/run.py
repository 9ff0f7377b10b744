"""A fine-tuning run: read encoder and data, train the trials, report."""

import hashlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf.configure_finetuning import FinetuningConfig
from electra_tf.finetune import pretrained, report, task_builder
from electra_tf.finetune.experiment import (
    MEAN,
    Experiment,
    TaskData,
    read_task,
)
from electra_tf.finetune.preprocessing import TextTokenizer
from electra_tf.finetune.trial import Trial
from electra_tf.training import callbacks, training_utils
from electra_tf.util import console, distribution
from electra_tf.util.errors import UserError

_SHARED = training_utils.SHARED_FIELDS | {"model_name", "num_trials"}
FinishedTrial = tuple[Trial, dict[str, Any]]
"""A trial and the contents of its `result.json`."""


@distribution.naming_lost_workers()
def run(config: FinetuningConfig) -> dict[str, Any]:
    """Trains, evaluates and predicts with every trial, and reports."""
    task_builder.check(config)
    if config.runtime.tensorboard:
        callbacks.check_tensorboard()
    experiment = prepare(config)
    numbers = range(1, config.run.num_trials + 1)
    done = [_run_trial(experiment, number) for number in numbers]
    is_chief = distribution.is_chief(experiment.strategy)
    content = (_report if is_chief else _results)(experiment, done)
    distribution.barrier(experiment.strategy)  # the chief is the last to end
    return content


def prepare(config: FinetuningConfig) -> Experiment:
    """Reads encoder and data."""
    strategy = _make_strategy(config)
    given_config, weights = config, pretrained.read(config)
    config, weights = pretrained.resolve_defaults(config, weights)
    longest = weights.architecture.encoder.max_position_embeddings
    tokenizer = TextTokenizer.of(weights)
    tasks = [
        task_builder.get_task(config, tokenizer, longest=longest, name=name)
        for name in config.task.task_names
    ]
    if weights.heads_are_assumed:
        heads = weights.architecture.encoder.num_attention_heads
        console.warn(
            f"No file beside {weights.origin} says how many attention heads "
            f"it has: {heads} are assumed."
        )
    digests = {"encoder": pretrained.digest(weights)}
    data = tuple(read_task(task, digests) for task in tasks)
    experiment = Experiment(config, data, weights, strategy, digests)
    workers = distribution.Workers(strategy)
    workers.check_same_values(_inputs(experiment))
    if config.run.do_train:
        for number in range(1, config.run.num_trials + 1):
            Trial(experiment, number, 0).check_shares()
    _log_data(experiment, pretrained.resolved_flags(given_config, config))
    return experiment


def _make_strategy(config: FinetuningConfig) -> tf.distribute.Strategy:
    """Makes the strategy, and checks that all workers share the settings."""
    if config.runtime.deterministic:
        tf.config.experimental.enable_op_determinism()
    settings = training_utils.shared_settings(config, _SHARED)
    strategy = training_utils.join_workers(config.runtime, settings)
    distribution.check_division(
        {config.training.train_batch_size},
        strategy.num_replicas_in_sync,
        config.runtime.gradient_accumulation_steps,
    )
    return strategy


def _inputs(experiment: Experiment) -> dict[str, str]:
    """Returns name -> digest of the encoder and of the examples."""
    digests = dict(experiment.digests)
    encoder = digests.pop("encoder")
    examples = hashlib.sha256(repr(sorted(digests.items())).encode())
    return {"encoder": encoder, "examples": examples.hexdigest()}


def _log_data(experiment: Experiment, encoder_flags: str) -> None:
    """Logs the rows of each task, the encoder and the settings it implies."""
    if not distribution.is_chief(experiment.strategy):
        return
    is_only_task = len(experiment.tasks) == 1
    for number, data in enumerate(experiment.tasks):
        task, parts = data.task, []
        if data.train is not None:
            parts.append(f"{data.train.num_rows:,} rows to train on")
        if data.train is not None and not is_only_task:
            share = 100 * experiment.shares()[:, number].mean()
            parts.append(f"{share:.1f} % of the updates")
        for split in (*data.dev, *data.test):
            parts.append(f"{len(split.examples):,} in {split.name}")
        summary = ", ".join(parts) or "nothing to do"
        console.say(f"{task.name}: {summary}.")
        for note in _warnings(data):
            console.warn(note)
    console.say(f"Encoder: {experiment.weights.origin}.")
    if encoder_flags:
        console.say(f"Defaults set by the encoder: {encoder_flags}")


def _warnings(data: TaskData) -> list[str]:
    """Returns warnings about the rows of a task."""
    task = data.task
    notes = task.bad_rows.notes
    if data.train is not None and data.dev:
        train, dev = (task.source(x) for x in ("train", data.dev[0].name))
        if train.exists and train.resolved == dev.resolved:
            notes.append(
                f"The dev rows of {task.name} are its training rows, {dev}."
            )
    if task.config.run.write_test_outputs and not data.test:
        missing = task.source(task.test_splits[0])
        notes.append(f"{task.name} has no test rows: {missing}.")
    return notes


def _run_trial(experiment: Experiment, number: int) -> FinishedTrial:
    """Runs a trial, and restarts it while it is degenerate."""
    config = experiment.config
    trial = Trial(experiment, number, 0)
    if not config.run.do_train and not trial.result_path.exists():
        raise UserError(f"{trial.directory} holds no finished trial.")
    done = [(trial, trial.run())]
    for restart in range(1, config.training.max_restarts + 1):
        retry = Trial(experiment, number, restart)
        can_run = config.run.do_train or retry.result_path.exists()
        if not done[-1][1].get("collapsed") or not can_run:
            break
        console.warn(
            f"Trial {number} failed: it gives the same answer to every dev "
            "row. It is restarted with another seed."
        )
        done.append((retry, retry.run()))
    trial, result = done[-1]
    if result.get("collapsed"):
        rank = experiment.rank
        trial, result = max(done, key=lambda pair: rank(pair[1]["metrics"]))
    return trial, {**result, "restarts": len(done) - 1}


def _report(
    experiment: Experiment, done: Sequence[FinishedTrial]
) -> dict[str, Any]:
    """Writes predictions and tables; returns what `run` does."""
    config = experiment.config
    trials = [trial for trial, _ in done]
    scores = report.write_predictions(experiment, trials)
    results = [
        {**result, "metrics": result["metrics"] | tests}
        for (_, result), tests in zip(done, scores.tests, strict=True)
    ]
    content = _results(experiment, list(zip(trials, results, strict=True)))
    if majority := experiment.majority:
        content["majority"] = {"metrics": majority}
    if scores.ensemble:
        content["ensemble"] = {"metrics": scores.ensemble}
    report.write(config, content)
    report.write_confusions(experiment, results)
    return content


def _results(
    experiment: Experiment, done: Sequence[FinishedTrial]
) -> dict[str, Any]:
    """Returns the contents of the results file."""
    results = [result for _, result in done]
    tasks = [data.task for data in experiment.tasks]
    metrics = {task.name: task.get_scorer().main_metric for task in tasks}
    is_only_task = len(tasks) == 1
    return {
        "task": experiment.config.task.task_name,
        "main_metric": metrics[tasks[0].name] if is_only_task else MEAN,
        **({} if is_only_task else {"main_metrics": metrics}),
        "encoder": experiment.weights.origin,
        "num_trials": len(results),
        "num_restarts": sum(result["restarts"] for result in results),
        "num_failed": sum(bool(r.get("collapsed")) for r in results),
        "num_bad_rows": {
            path: count
            for task in tasks
            for path, count in task.bad_rows.counts.items()
        },
        "summary": report.summarize(results),
        "trials": results,
    }
